"""Nodes of the cluster, and the queues that come and go with them."""

from __future__ import annotations

import msgspec
import pytest

from tests.metadata.cluster import UIDS, Cluster, names, shown
from warren.errors import ClusterError, Refusal
from warren.limits import QUEUES_AT_ONCE_MAX
from warren.metadata import commands, encoding
from warren.metadata.machine import MetadataMachine
from warren.metadata.node_checks import Needs, check_add_node, check_remove_node

# --- nodes --------------------------------------------------------------------------------------


def test_a_cluster_is_named_once() -> None:
    cluster = Cluster("a")
    assert cluster.machine.cluster_id == b"c" * 16
    assert not cluster.apply(commands.BeginCluster(b"d" * 16)).changed


def test_nodes_are_in_the_order_in_which_they_joined() -> None:
    cluster = Cluster("b", "a", "c")
    assert list(cluster.machine.nodes) == ["b", "a", "c"]
    restored = MetadataMachine()
    restored.restore(cluster.machine.snapshot())
    assert list(restored.nodes) == ["b", "a", "c"]
    assert restored.state_hash() == cluster.machine.state_hash()


def test_a_node_is_added_once() -> None:
    cluster = Cluster("a")
    assert not cluster.add("a").changed
    moved = cluster.add("a", port=2, incarnation=5)
    assert moved.nodes_changed
    node = cluster.machine.nodes["a"]
    assert (node.host, node.port, node.incarnation) == ("a.example", 2, 5)
    assert node.session > 0


def test_a_name_is_one_nodes_until_it_is_removed() -> None:
    cluster = Cluster("a", "b")
    assert not cluster.add("b", uid=b"other").changed
    assert not cluster.add("c", uid=UIDS["b"]).changed
    assert cluster.apply(commands.RemoveNode("b")).nodes_changed
    assert cluster.add("b", uid=b"other").nodes_changed
    node = cluster.machine.nodes["b"]
    assert (node.uid, node.session) == (b"other", 0)
    assert not cluster.up("b").changed


def test_an_address_changes() -> None:
    cluster = Cluster("a")
    outcome = cluster.apply(commands.NodeMoved("a", "elsewhere", 9))
    assert outcome.changed
    assert outcome.nodes_changed
    assert outcome.node_up is None
    node = cluster.machine.nodes["a"]
    assert (node.host, node.port) == ("elsewhere", 9)
    assert not cluster.apply(commands.NodeMoved("a", "elsewhere", 9)).changed
    assert not cluster.apply(commands.NodeMoved("b", "elsewhere", 9)).changed


# --- lives --------------------------------------------------------------------------------------


def test_sessions_ascend() -> None:
    cluster = Cluster()
    assert cluster.add("a").nodes_changed
    assert cluster.machine.nodes["a"].session == 0
    seen = [0]
    for _ in range(3):
        outcome = cluster.up("a")
        assert outcome.node_up is cluster.machine.nodes["a"]
        assert not outcome.nodes_changed
        assert cluster.machine.nodes["a"].session == cluster.machine.applied_index
        seen.append(int(cluster.machine.nodes["a"].session))
    assert seen == sorted(set(seen))


def test_an_announcement_counts_once_and_for_its_own_node_only() -> None:
    cluster = Cluster("a")
    assert cluster.up("a", b"n").changed
    session = cluster.machine.nodes["a"].session
    assert not cluster.up("a", b"n").changed
    assert not cluster.apply(commands.NodeUp("a", UIDS["b"], b"m")).changed
    assert not cluster.up("b").changed
    assert cluster.machine.nodes["a"].session == session


def test_a_life_gets_further_sessions() -> None:
    """Its own first ones stay its own; a command that comes twice counts once."""
    cluster = Cluster("a", "b")
    cluster.up("a", b"n")
    node = cluster.machine.nodes["a"]
    began = int(node.session)
    more = commands.MoreSessions("a", b"n", began)
    outcome = cluster.apply(more)
    assert outcome.more_sessions is node and outcome.node_up is None
    assert (node.session, node.newest) == (began, cluster.machine.applied_index)
    assert not cluster.apply(more).changed
    assert not cluster.apply(commands.MoreSessions("a", b"m", int(node.newest))).changed
    assert not cluster.apply(commands.MoreSessions("d", b"n", 0)).changed
    cluster.declare("mine", "a", owner=7, session=began)
    restored = MetadataMachine()
    restored.restore(cluster.machine.snapshot())
    assert restored.nodes["a"].newest == node.newest > node.session
    cluster.up("a", b"o")
    assert node.newest == node.session > began


@pytest.mark.rule("DUR-02")
def test_what_ended_with_a_nodes_process_goes_when_it_is_up_again() -> None:
    cluster = Cluster("a", "b", "c")
    for node in ("a", "b"):
        cluster.declare(f"transient-{node}", node, durable=False)
        cluster.declare(f"exclusive-{node}", node, durable=False, owner=(7 if node == "a" else 8))
        cluster.declare(f"classic-{node}", node)
        cluster.declare(f"quorum-{node}", node, "ABC")
    cluster.apply(commands.Bind("/", "amq.direct", "transient-a", False, "k", {}, False))
    outcome = cluster.up("a")
    assert names(outcome.deleted_queues) == ["transient-a", "exclusive-a"]
    assert cluster.queues() == [
        "classic-a",
        "quorum-a",
        "transient-b",
        "exclusive-b",
        "classic-b",
        "quorum-b",
    ]
    assert cluster.machine.vhosts["/"].router.route("amq.direct", "k") == []
    assert cluster.machine.queues_of_owner("/", 7).keys() == []
    assert names(cluster.machine.queues_of_owner("/", 8)) == ["exclusive-b"]


def test_exchanges_that_are_not_durable_outlive_a_node_but_not_the_only_one() -> None:
    declare = commands.DeclareExchange("/", "x", "direct", False, False, False, {})
    cluster = Cluster("a", "b")
    cluster.apply(declare)
    assert cluster.up("a").deleted_exchanges == []
    cluster.apply(commands.RemoveNode("b"))
    outcome = cluster.up("a")
    assert [row.name for row in outcome.deleted_exchanges] == ["x"]


def test_a_declare_of_an_earlier_process_is_late() -> None:
    cluster = Cluster("a", "b")
    earlier = int(cluster.machine.nodes["a"].session)
    cluster.up("a")
    assert not cluster.declare("t", "a", durable=False, session=earlier).changed
    assert not cluster.declare("e", "a", owner=7, session=earlier).changed
    assert cluster.declare("c", "a", session=earlier).created_queue is not None
    assert cluster.declare("q", "a", "AB", session=earlier).created_queue is not None
    assert cluster.declare("t", "a", durable=False).created_queue is not None


def test_group_ids_need_not_ascend() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("late", "b")
    cluster.declare("early", "a")
    assert cluster.queue("early").group_id < cluster.queue("late").group_id
    stale = commands.DeleteQueue("/", "early", cluster.queue("late").group_id, True)
    assert not cluster.apply(stale).changed


# --- members ------------------------------------------------------------------------------------


def test_a_queue_knows_its_members() -> None:
    cluster = Cluster("a", "b", "c", "d")
    cluster.declare("q", "b", "BCAd")
    restored = MetadataMachine()
    restored.restore(cluster.machine.snapshot())
    queue = restored.queue("/", "q")
    assert queue is not None
    assert shown(queue) == "BCAd"
    assert queue.node == "b"
    member = queue.member_on("d")
    assert member is not None
    assert (member.incarnation, member.voter) == (1, False)
    assert queue.member_on("e") is None


def test_members_are_replaced_by_who_saw_the_present_ones() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.declare("q", "a", "Ab")
    outcome = cluster.set_members("q", "AB", 0)
    assert outcome.members_changed == [cluster.queue("q")]
    assert cluster.members("q") == "AB"
    assert cluster.queue("q").revision == 1
    assert not cluster.set_members("q", "Ac", 0).changed
    assert cluster.set_members("q", "BC", 1).changed
    assert cluster.queue("q").node == "b"
    assert not cluster.set_members("q", "A", 2, group_id=5).changed
    assert not cluster.set_members("q", "a", 2).changed
    assert cluster.set_members("q", "aB", 2).changed
    cluster.declare("c", "a")
    assert not cluster.set_members("c", "A", 0).changed


def test_members_on_nodes_that_are_gone_are_left_out() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.apply(commands.RemoveNode("c"))
    cluster.declare("q", "a", "ACb")
    assert cluster.members("q") == "Ab"
    assert not cluster.declare("none", "a", "Cb").changed
    assert cluster.declare("moved", "c", "CBa", session=9).changed
    assert cluster.queue("moved").node == "b"
    assert not cluster.declare("classic", "c", session=9).changed
    cluster.set_members("q", "ACB", 0)
    assert cluster.members("q") == "AB"


# --- removal ------------------------------------------------------------------------------------


@pytest.mark.rule("D-07")
@pytest.mark.rule("MEM-07")
def test_removing_a_node_takes_its_queues_and_its_members_away() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.declare("transient", "b", durable=False)
    cluster.declare("exclusive", "b", durable=False, owner=7)
    cluster.declare("classic", "b")
    cluster.declare("kept", "a")
    cluster.declare("q", "b", "BAC")
    cluster.declare("other", "a", "A")
    cluster.declare("learner", "a", "Ab")
    cluster.apply(commands.Bind("/", "amq.direct", "classic", False, "k", {}, True))
    outcome = cluster.apply(commands.RemoveNode("b"))
    assert outcome.nodes_changed
    assert names(outcome.deleted_queues) == ["transient", "exclusive", "classic"]
    assert names(outcome.members_changed) == ["q", "learner"]
    assert cluster.queues() == ["kept", "q", "other", "learner"]
    assert cluster.members("q") == "AC"
    assert cluster.queue("q").node == "a"
    assert cluster.members("learner") == "A"
    assert cluster.machine.vhosts["/"].router.route("amq.direct", "k") == []
    assert list(cluster.machine.nodes) == ["a", "c"]
    assert not cluster.apply(commands.RemoveNode("b")).changed


def test_a_removal_that_comes_late_takes_no_later_node() -> None:
    """It was decided for a node that is gone; another one has joined under its name since."""
    cluster = Cluster("a", "b")
    late = check_remove_node(cluster.machine, "b", running=False)
    assert cluster.apply(late).nodes_changed
    assert cluster.add("b", uid=b"another").nodes_changed
    assert not cluster.apply(late).changed
    assert list(cluster.machine.nodes) == ["a", "b"]


def test_a_removal_of_an_older_log_names_no_uid() -> None:
    command = encoding.decode(msgspec.msgpack.encode([encoding.VERSION, 16, "b", True]))
    assert isinstance(command, commands.RemoveNode)
    assert (command.name, command.force, command.uid) == ("b", True, b"")


def test_the_last_node_stays() -> None:
    cluster = Cluster("a", "b")
    assert cluster.apply(commands.RemoveNode("a")).changed
    assert not cluster.apply(commands.RemoveNode("b", True)).changed


def test_a_last_voter_is_removed_by_force_only() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("alone", "b", "B")
    cluster.declare("q", "b", "Ba")
    assert not cluster.apply(commands.RemoveNode("b")).changed
    outcome = cluster.apply(commands.RemoveNode("b", True))
    # A copy that does not vote is none that could lead.
    assert names(outcome.deleted_queues) == ["alone", "q"]
    assert not outcome.members_changed


# --- checks -------------------------------------------------------------------------------------


def test_who_may_join() -> None:
    cluster = Cluster("a", "b")
    machine = cluster.machine

    def check(name: str, uid: bytes, port: int = 1) -> commands.AddNode | None:
        return check_add_node(machine, name, uid, f"{name}.example", port, 1)

    assert check("a", UIDS["a"]) is None
    for joins in (check("c", UIDS["c"]), check("a", UIDS["a"], 2)):
        assert joins is not None
        assert cluster.apply(joins).nodes_changed
    with pytest.raises(ClusterError, match="^a node 'a' with another data directory is in the"):
        check("a", b"other")
    with pytest.raises(ClusterError, match="^the data directory of node 'd' is that of node 'b'"):
        check("d", UIDS["b"])


def test_who_may_go() -> None:
    cluster = Cluster("a", "b")
    machine = cluster.machine
    with pytest.raises(Refusal, match="^NOT_FOUND - node 'c' is not in the cluster$"):
        check_remove_node(machine, "c", False)
    with pytest.raises(Refusal, match="^.* - node 'b' is running: stop it before it is forgotten$"):
        check_remove_node(machine, "b", True)
    with pytest.raises(Refusal, match="^PRECONDITION_FAILED - node 'b' is running"):
        check_remove_node(machine, "b", True, force=True)
    assert not check_remove_node(machine, "b", True, leaving=True).force
    cluster.declare("q", "b", "aB")
    needs = Needs("b", ["a"])
    for queue in machine.vhosts["/"].queues_in_order():
        needs.look(queue)
    with pytest.raises(Refusal, match="only voting member of 1 quorum .* 'q' in vhost '/'"):
        needs.check_last()
    assert not cluster.apply(check_remove_node(machine, "b", False)).changed
    assert cluster.apply(check_remove_node(machine, "b", False, force=True)).nodes_changed
    with pytest.raises(Refusal, match="^PRECONDITION.* - node 'a' is the only one of the cluster"):
        check_remove_node(machine, "a", False, force=True)


@pytest.mark.parametrize(
    "command",
    [
        commands.RemoveNode("b", True),
        commands.ReplaceNode("b", UIDS["b"], b"x" * 16, "b.example", 1, 9),
    ],
)
def test_what_a_node_s_change_does_to_very_many_queues_is_done_in_parts(
    command: commands.Command,
) -> None:
    """To the same tables; nothing comes between, and each queue has its part once."""
    clusters = [Cluster("a", "b", "c"), Cluster("a", "b", "c")]
    whole, parts = (cluster.machine for cluster in clusters)
    for cluster in clusters:
        cluster.apply(commands.DeclareVhost("empty"))
        for number in range(QUEUES_AT_ONCE_MAX // 2):
            cluster.declare(f"all{number}", "a", "ABC")
            cluster.declare(f"alone{number}", "b", "Bac")
            cluster.declare(f"others{number}", "a", "AC")
            cluster.declare(f"classic{number}", "b")
    index = int(whole.applied_index) + 1
    assert whole.state_hash() == parts.state_hash()
    outcomes = [parts.begin(index, command)]
    assert outcomes[0].nodes_changed
    while parts.unfinished():
        with pytest.raises(AssertionError, match="the command before is applied"):
            parts.begin(index + 1, commands.Barrier())
        outcomes.append(parts.go_on())
        assert not outcomes[-1].nodes_changed
    outcome = whole.apply(index, command)
    assert whole.state_hash() == parts.state_hash()
    sizes = [len(part.members_changed) + len(part.deleted_queues) for part in outcomes]
    assert len(sizes) >= 3 and max(sizes) <= QUEUES_AT_ONCE_MAX
    for kind in ("members_changed", "deleted_queues"):
        done = [queue.name for part in outcomes for queue in getattr(part, kind)]
        assert done == [queue.name for queue in getattr(outcome, kind)]
    assert sum(sizes) >= QUEUES_AT_ONCE_MAX
