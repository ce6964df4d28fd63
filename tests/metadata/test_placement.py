"""Where the members of a new quorum queue go, and who leads first."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metadata.cluster import Cluster, shown
from warren.metadata import checks, placement
from warren.metadata.commands import DeclareQueue
from warren.metadata.placement import BALANCED, CLIENT_LOCAL, QUEUES_FOR_CHANCE, Loads
from warren.metadata.spread import Spread
from warren.metadata.tables import NO_OWNER, NodeRecord, PolicyRecord, VhostRecord
from warren.wire.amqp091.table import SignedInt, Table

FIVE = ["a", "b", "c", "d", "e"]
SEEDS = [number.to_bytes(16, "big") for number in range(200)]


def choose(
    nodes: list[str],
    declaring: str = "a",
    size: int = 3,
    locator: str = CLIENT_LOCAL,
    loads: Loads | None = None,
    running: list[str] | None = None,
    seed: bytes = SEEDS[0],
    labels: str = "",
) -> tuple[str, list[str]]:
    """Leader and members; labels as `node=host/zone`, with spaces between."""
    return placement.choose_members(
        nodes,
        nodes if running is None else running,
        declaring,
        size,
        locator,
        loads or Loads(0),
        seed,
        Spread(labelled(nodes, labels), []),
    )


def labelled(nodes: list[str], labels: str) -> dict[str, NodeRecord]:
    """Nodes of a cluster, some of which say where they are."""
    found = {name: NodeRecord(name, name.encode(), "h", 1, 1) for name in nodes}
    for label in labels.split():
        name, _, where = label.partition("=")
        found[name].host_label, _, found[name].zone = where.partition("/")
    return found


@given(
    st.lists(st.sampled_from(FIVE), min_size=1, unique=True),
    st.data(),
    st.integers(1, 7),
    st.sampled_from([CLIENT_LOCAL, BALANCED]),
    st.sampled_from([0, QUEUES_FOR_CHANCE]),
    st.dictionaries(st.sampled_from(FIVE), st.integers(0, 3)),
    st.dictionaries(st.sampled_from(FIVE), st.integers(0, 3)),
    st.binary(min_size=16, max_size=16),
)
def test_any_placement(
    nodes: list[str],
    data: st.DataObject,
    size: int,
    locator: str,
    queues: int,
    leaders: dict[str, int],
    voting: dict[str, int],
    seed: bytes,
) -> None:
    declaring = data.draw(st.sampled_from(nodes))
    running = [*data.draw(st.lists(st.sampled_from(nodes), unique=True)), declaring]
    loads = Loads(queues)
    loads.leaders, loads.voters = leaders, voting
    leader, voters = choose(nodes, declaring, size, locator, loads, running, seed)
    others = [node for node in nodes if node not in voters]
    assert voters == [node for node in nodes if node in voters]
    assert len(voters) == min(size, len(nodes))
    assert declaring in voters
    assert leader in voters
    assert leader in running
    assert not any(node in running for node in others) or all(n in running for n in voters)
    if locator == CLIENT_LOCAL:
        assert leader == declaring
    elif not queues:
        able = [node for node in voters if node in running]
        assert leaders.get(leader, 0) == min(leaders.get(node, 0) for node in able)


@pytest.mark.rule("D-01")
@pytest.mark.rule("REP-01")
@pytest.mark.rule("CFG-01")
def test_three_hold_it_and_the_others_nothing() -> None:
    assert placement.group_size({}, placement.DEFAULT_GROUP_SIZE) == 3
    assert len(choose(FIVE)[1]) == 3


@pytest.mark.rule("REP-03")
@pytest.mark.parametrize("value", [5, SignedInt(5)])
def test_the_argument_says_how_many_vote(value: int) -> None:
    assert placement.group_size({"x-quorum-initial-group-size": value}, 3) == 5


@pytest.mark.rule("REP-04")
def test_fewer_nodes_than_wanted() -> None:
    assert choose(["a", "b"], size=5) == ("a", ["a", "b"])
    assert choose(["a"], size=3) == ("a", ["a"])


@pytest.mark.rule("REP-05")
@pytest.mark.parametrize("queues", [0, QUEUES_FOR_CHANCE])
def test_voters_are_a_random_subset_with_the_declaring_node(queues: int) -> None:
    counted: Counter[str] = Counter()
    for seed in SEEDS:
        _, voters = choose(FIVE, "c", loads=Loads(queues), seed=seed)
        assert "c" in voters
        counted.update(voters)
    assert counted.pop("c") == len(SEEDS)
    assert set(counted) == {"a", "b", "d", "e"}
    assert min(counted.values()) > len(SEEDS) / 4


def test_nodes_with_fewer_voters_come_first_and_running_ones_before_them() -> None:
    loads = Loads(9)
    loads.voters = {"a": 9, "b": 2, "c": 1, "d": 0, "e": 2}
    assert choose(FIVE, size=3, loads=loads)[1] == ["a", "c", "d"]
    assert choose(FIVE, size=2, loads=loads, running=["a", "b"])[1] == ["a", "b"]
    assert choose(FIVE, size=3, loads=loads, running=["a", "b"])[1] == ["a", "b", "d"]


def test_members_share_no_host_unless_there_is_no_other() -> None:
    hosts = "a=h1 b=h1 c=h2 d=h2 e=h3"
    for seed in SEEDS:
        _, voters = choose(FIVE, "a", seed=seed, labels=hosts)
        assert voters in (["a", "c", "e"], ["a", "d", "e"])
    _, voters = choose(FIVE, "a", size=4, running=["a", "b"], labels=hosts)
    assert len({"a", "b"} & set(voters)) == 2 and "e" in voters, "there is no fourth host"
    _, voters = choose(FIVE, "a", running=["a", "b"], labels="a=h1 b=h1 c=h1 d=h1")
    assert voters == ["a", "b", "e"], "one without a label shares its host with none"


def test_members_are_in_as_many_zones_as_may_be() -> None:
    zones = "a=/x b=/x c=/x d=/y e=/z"
    loads = Loads(9)
    loads.voters = {"d": 9, "e": 9}
    assert choose(FIVE, "a", loads=loads, labels=zones)[1] == ["a", "d", "e"]
    assert choose(FIVE, "a", size=4, loads=loads, labels=zones)[1][:2] in (["a", "b"], ["a", "c"])
    assert choose(FIVE, "a", running=["a", "b", "c"], labels=zones)[1] == ["a", "b", "c"]


def test_a_host_of_its_own_comes_before_a_node_that_runs_and_that_before_a_zone() -> None:
    """A member that is down comes back; one beside another goes with it."""
    hosts = "a=h1/x b=h1/y c=h2/x d=h3/z"
    fewer = hosts[: -len(" d=h3/z")]
    assert choose(["a", "b", "c"], "a", 2, running=["a", "b"], labels=fewer)[1] == ["a", "c"]
    running = ["a", "b", "c"]
    assert choose(["a", "b", "c", "d"], "a", 2, running=running, labels=hosts)[1] == ["a", "c"]
    assert choose(["a", "b", "c", "d"], "a", size=2, labels=hosts)[1] == ["a", "d"]


def test_the_best_nodes_share_no_host_and_then_few_zones() -> None:
    spread = Spread(labelled(FIVE, "a=h1/x b=h1/y c=h2/x d=h2/x e=h3/x"), ["a"])
    assert spread.best(["b", "c", "d", "e"]) == ["c", "d", "e"], "b shares a host"
    assert spread.best(["b"]) == ["b"] and spread.best([]) == []
    spread.add("c")
    assert spread.best(["b", "d", "e"]) == ["e"]
    assert spread.best(["b", "d"]) == ["b"], "both share a host, and nobody is in its zone"


def located(arguments: Table, default: str, policy: str = "") -> str:
    """Where the leader of a new queue `q` goes."""
    tables = VhostRecord("/")
    if policy:
        definition = {"queue-leader-locator": policy}
        tables.policies["p"] = PolicyRecord("p", "^q$", "quorum_queues", 0, definition)
    command = DeclareQueue("/", "q", "quorum", True, False, NO_OWNER, arguments, 1)
    return placement.leader_locator(tables, command, default)


@pytest.mark.rule("LEAD-03")
def test_the_clients_node_leads_unless_told_otherwise() -> None:
    loads = Loads(9)
    loads.leaders = {"b": 9}
    assert choose(FIVE, "b", size=5, loads=loads)[0] == "b"
    assert located({}, CLIENT_LOCAL) == CLIENT_LOCAL


@pytest.mark.rule("LEAD-04")
def test_balanced_takes_the_node_that_leads_least() -> None:
    loads = Loads(QUEUES_FOR_CHANCE - 1)
    loads.leaders = {"a": 3, "b": 2, "c": 1, "d": 2, "e": 2}
    for seed in SEEDS:
        assert choose(FIVE, "a", 5, BALANCED, loads, seed=seed)[0] == "c"
        leader = choose(FIVE, "a", 5, BALANCED, loads, running=["a", "b"], seed=seed)[0]
        assert leader == "b"


@pytest.mark.rule("LEAD-04")
def test_balanced_takes_any_node_where_there_are_many_queues() -> None:
    loads = Loads(QUEUES_FOR_CHANCE)
    loads.leaders = {"a": 1_000}
    leaders = Counter(choose(FIVE, "a", 5, BALANCED, loads, seed=seed)[0] for seed in SEEDS)
    assert set(leaders) == set(FIVE)
    assert min(leaders.values()) > len(SEEDS) / 10


@pytest.mark.parametrize(
    ("argument", "default", "locator"),
    [
        ("balanced", CLIENT_LOCAL, BALANCED),
        ("client-local", BALANCED, CLIENT_LOCAL),
        ("random", CLIENT_LOCAL, BALANCED),
        ("least-leaders", CLIENT_LOCAL, BALANCED),
        (None, BALANCED, BALANCED),
        (None, CLIENT_LOCAL, CLIENT_LOCAL),
    ],
)
def test_the_argument_says_who_leads(argument: str | None, default: str, locator: str) -> None:
    arguments: Table = {} if argument is None else {"x-queue-leader-locator": argument}
    assert located(arguments, default) == locator
    # A policy comes first.
    assert located(arguments, default, "client-local") == CLIENT_LOCAL
    assert located(arguments, default, "balanced") == BALANCED
    assert located(arguments, default, "least-leaders") == BALANCED


# --- with the tables ----------------------------------------------------------------------------


def declare(
    cluster: Cluster, name: str, arguments: Table, node: str = "a", exclusive: bool = False
) -> None:
    group_id = int(cluster.machine.nodes[node].session << 32) + 100 + cluster.machine.applied_index
    command = checks.declare_queue(
        cluster.machine, "/", name, not exclusive, exclusive, False, arguments, 7, group_id
    )
    assert command is not None
    running = list(cluster.machine.nodes)
    seed = name.encode().rjust(16)
    placement.place(command, cluster.machine, running, node, 3, CLIENT_LOCAL, group_id, seed, {})
    assert cluster.apply(command).created_queue is not None


def test_leaders_and_voters_spread() -> None:
    cluster = Cluster(*"abcd")
    arguments: Table = {"x-queue-type": "quorum", "x-queue-leader-locator": "balanced"}
    for number in range(40):
        declare(cluster, f"q{number}", arguments)
    loads = placement.count_loads(cluster.machine, {})
    assert loads.queues == 40
    assert sum(loads.leaders.values()) == 40
    assert all(9 <= loads.leaders[node] <= 11 for node in "abcd")
    assert loads.voters["a"] == 40
    assert max(loads.voters[node] for node in "bcd") <= 27
    queue = cluster.queue("q7")
    assert len(queue.members) == 3
    assert {int(member.incarnation) for member in queue.members} == {int(queue.group_id)}


@pytest.mark.rule("LEAD-04")
def test_leaders_count_where_they_are_now() -> None:
    """Not where they began; one that nobody has heard of counts there."""
    cluster = Cluster(*"ab")
    for name in ("q1", "q2", "q3"):
        cluster.declare(name, "a", "AB")
    moved = {int(cluster.queue(name).group_id): "b" for name in ("q1", "q3")}
    assert placement.count_loads(cluster.machine, moved).leaders == {"a": 1, "b": 2}


@pytest.mark.rule("REP-03")
def test_a_declares_arguments_are_honoured() -> None:
    cluster = Cluster(*"abc")
    quorum: Table = {"x-queue-type": "quorum"}
    declare(cluster, "one", quorum | {"x-quorum-initial-group-size": 1}, "b")
    assert shown(cluster.queue("one")) == "B"
    declare(cluster, "seven", quorum | {"x-quorum-initial-group-size": 7})
    assert shown(cluster.queue("seven")) == "ABC"
    declare(cluster, "spread", quorum | {"x-queue-leader-locator": "balanced"}, "a")
    assert cluster.queue("spread").node == "c"


@pytest.mark.rule("DUR-13")
def test_exclusive_queues_are_local_whatever_the_locator() -> None:
    cluster = Cluster(*"abc")
    declare(cluster, "e", {"x-queue-leader-locator": "balanced"}, "b", exclusive=True)
    assert cluster.queue("e").node == "b"
    assert cluster.queue("e").members == []


def test_many_queues_are_not_counted_one_by_one() -> None:
    cluster = Cluster("a", "b")
    declare(cluster, "q", {"x-queue-type": "quorum"})
    for number in range(QUEUES_FOR_CHANCE - 2):
        cluster.declare(f"c{number}", "a")
    assert placement.count_loads(cluster.machine, {}).leaders == {"a": 1}
    cluster.declare("another", "a")
    loads = placement.count_loads(cluster.machine, {})
    assert loads.queues == QUEUES_FOR_CHANCE
    assert not loads.leaders
