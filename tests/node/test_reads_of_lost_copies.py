"""Rows that are being read where their node gives up its copy of the queue, or the queue goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Pair
from warren.ports import Job
from warren.raft.effects import AcceptSnapshot
from warren.raft.messages import SnapshotOffer
from warren.replication.member import Member
from warren.wire.amqp091 import spec

QUEUE = "orders"
ROWS = 3


class Reading:
    """Three nodes with a queue, and a client of the second whose read of it does not come back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pair = pair = Pair()
        pair.add("c")
        self.publisher = pair.a.client()
        assert isinstance(self.publisher.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
        self.publisher.publish_confirmed(QUEUE, ROWS)
        pair.until(lambda: pair.b.knows(QUEUE))
        pair.until(lambda: pair.b.queue(QUEUE).ready_count() == ROWS)
        self.client = pair.b.client()
        pair.settle(60)
        self._submit = pair.b.executor.submit
        self._held: list[tuple[str, Job]] = []
        monkeypatch.setattr(pair.b.executor, "submit", self._hold)
        self.client.send(spec.TableRead(0, QUEUE, 0, ROWS - 1, 1_000_000))
        pair.until(lambda: bool(self._held))

    def _hold(self, lane: str, job: Job) -> None:
        if lane.startswith("read"):
            self._held.append((lane, job))
        else:
            self._submit(lane, job)

    def end(self) -> spec.Method:
        """The read comes back; gives what the client is told."""
        client = self.client
        assert not client.rows and not client.methods
        for lane, job in self._held:
            self._submit(lane, job)
        self.pair.until(lambda: bool(client.methods or client.rows))
        assert not client.rows, "what is left out of an answer is gone for who reads it"
        return client.methods[0]


def taken_over(pair: Pair, member: Member) -> None:
    """The leader offers a snapshot of what this copy has not got."""
    copies = {copy.node: copy.incarnation for copy in member.raft.members}
    term, index = int(member.raft.term), int(member.log.last_index) + 9
    offer = SnapshotOffer(
        "a", copies["a"], "b", copies["b"], term, index, term, member.raft.members
    )
    pair.b.node.cluster.transfers.accept(member, AcceptSnapshot(offer))


def begun_anew(pair: Pair, member: Member) -> None:
    """The tables name another copy in the place of this one."""
    member.rejoin_as(int(pair.b.node.placing.new_group()))


@pytest.mark.parametrize("give_up", [taken_over, begun_anew])
def test_a_read_under_which_its_copy_is_given_up_is_to_be_made_again(
    give_up: Callable[[Pair, Member], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(monkeypatch)
    pair = reading.pair
    give_up(pair, pair.b.node.cluster.members[int(pair.b.queue(QUEUE).group_id)])
    answer = reading.end()
    assert isinstance(answer, spec.ConnectionClose) and answer.reply_code == 541
    assert f"queue '{QUEUE}' in vhost '/' is being copied to this node: read again" in (
        answer.reply_text
    )


def test_a_read_under_which_its_queue_goes_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    pair = reading.pair
    deleted = reading.publisher.call(spec.QueueDelete(0, QUEUE, False, False, False))
    assert isinstance(deleted, spec.QueueDeleteOk)
    pair.until(lambda: not pair.b.knows(QUEUE))
    answer = reading.end()
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 404
