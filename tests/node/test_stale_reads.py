"""What a leader read from its disk in an earlier term is not sent in a later one."""

from __future__ import annotations

from tests.node.pair import Pair, Station
from warren.log.batch import Batch
from warren.replication.member import Member
from warren.wire.amqp091 import spec

QUEUE = "orders"


def member(station: Station) -> Member:
    return station.node.cluster.members[int(station.queue(QUEUE).group_id)]


def test_an_entry_of_an_older_term_that_was_read_late_is_not_sent() -> None:
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    client.declare(QUEUE, kind="quorum")
    client.call(spec.ConfirmSelect(False))
    client.publish(QUEUE, b"first")
    pair.until(lambda: len(client.acked) == 1)
    late = pair.stations["c"]
    pair.until(lambda: member(late).raft.last_index == member(pair.a).raft.last_index)
    old_term = int(member(pair.a).raft.term)
    # From here on nothing gets to c; the lead goes to b and back, which makes the term higher.
    for other in ("a", "b"):
        for link in ((other, "c"), ("c", other)):
            pair.blocked.add(link)
            pair.cut(*link)
    for target in ("b", "a"):
        group_id = int(member(pair.a).group_id)
        pair.until(lambda: member(pair.a).raft.leader in ("a", "b"))
        pair.stations[member(pair.a).raft.leader].node.queue_members.transfer(group_id, target)
        pair.until(lambda target=target: member(pair.stations[target]).raft.can_propose())
    client.publish(QUEUE, b"new")
    pair.until(lambda: len(client.acked) == 2)
    here = member(pair.a)
    index = int(member(late).raft.last_index) + 1
    while here.log.recent(index) is None or here.log.recent(index).count == 0:
        index += 1
    new = here.log.recent(index)
    assert new is not None and new.term > old_term and new.record(0).endswith(b"new\xce")
    record = new.record(0).replace(b"new\xce", b"old\xce")
    entries = []
    for at in range(int(member(late).raft.last_index) + 1, index):
        before = here.log.recent(at)
        assert before is not None
        entries.append(before)
    length = len(record).to_bytes(4, "little")
    stale = Batch(
        here.log,
        new.kind,
        index,
        old_term,
        new.first,
        1,
        0,
        length,
        0,
        record,
        0,
        len(record),
        None,
    )
    here.log.keep_recent(0)
    assert here.log.recent(index) is None
    pair.blocked.clear()

    def there() -> bool:
        # As a read leaves it that was begun while this node led before.
        here.feeding._read = {"c": [*entries, stale]}
        return member(late).applied_index >= index

    pair.until(there)
    other = late.client()
    got = [other.get(QUEUE) for _ in range(2)]
    assert [message.body for message in got if message is not None] == [b"first", b"new"]
