"""Do the simulator's checkers complain of what must not be, and of nothing else?

Each history is forged. For every complaint of a checker there is one that causes it, and for every
checker some that are as they should be.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sim.checkers import checkouts, delivery, durability, loss, order, ranks, replay
from sim.checkers.checkouts import CheckoutChecker
from sim.checkers.delivery import DeliveryChecker
from sim.checkers.durability import DurabilityChecker
from sim.checkers.loss import LossChecker
from sim.checkers.order import OrderChecker
from sim.checkers.ranks import RankChecker
from sim.checkers.replay import ReplayChecker
from sim.model import RETURNED, Holder, QueueState, Violation
from tests.sim.forged import Forged, History, complained, complaints_in
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.machine import Fifo

# --- delivery -----------------------------------------------------------------------------------


def all_is_delivered_as_it_should_be() -> None:
    stage = Forged(DeliveryChecker)
    queue, first, second = stage.queue(), Holder("a"), Holder("b")
    message = stage.confirmed(queue)
    stage.give(message, first)
    first.alive = False
    stage.settle(stage.give(message, second, True))
    transient = stage.publish(stage.queue("classic"), persistent=False)
    stage.settle(stage.give(transient, second))


def a_settlement_that_a_crash_undid() -> None:
    stage = Forged(DeliveryChecker)
    holder = Holder("a")
    message = stage.confirmed(stage.queue("classic"))
    stage.settle(stage.give(message, holder))
    stage.start_again()
    stage.give(message, holder, True)


def a_transient_message_after_a_restart() -> None:
    stage = Forged(DeliveryChecker)
    message = stage.publish(stage.queue("classic"), persistent=False)
    stage.start_again()
    stage.give(message, Holder("a"))


def a_returned_message() -> None:
    stage = Forged(DeliveryChecker)
    message = stage.publish(stage.queue())
    message.status = RETURNED
    stage.give(message, Holder("a"))


def a_message_that_is_still_on_its_way() -> None:
    stage = Forged(DeliveryChecker)
    stage.give(stage.send(stage.queue()), Holder("a"))


def a_held_message() -> None:
    stage = Forged(DeliveryChecker)
    message = stage.confirmed(stage.queue())
    stage.give(message, Holder("a"))
    stage.give(message, Holder("b"), True)


def again_without_redelivered() -> None:
    stage = Forged(DeliveryChecker)
    message, gone = stage.confirmed(stage.queue()), Holder("a")
    stage.give(message, gone)
    gone.alive = False
    stage.give(message, Holder("b"))


def redelivered_at_first() -> None:
    stage = Forged(DeliveryChecker)
    stage.give(stage.confirmed(stage.queue()), Holder("a"), True)


def beyond_the_limit() -> None:
    stage = Forged(DeliveryChecker)
    queue, holder = stage.queue(), Holder("a")
    queue.delivery_limit = 1
    message = stage.confirmed(queue)
    for again in (False, True, True):
        copy = stage.give(message, holder, again)
        copy.rejecting, copy.holder = copy.held_in, None


def up_to_the_limit() -> None:
    stage = Forged(DeliveryChecker)
    queue, holder = stage.queue(), Holder("a")
    queue.delivery_limit = 2
    message = stage.confirmed(queue)
    for again in (False, True, True):
        copy = stage.give(message, holder, again)
        copy.rejecting, copy.holder = copy.held_in, None


def again_after_it_was_settled() -> None:
    stage = Forged(DeliveryChecker)
    message, holder = stage.confirmed(stage.queue()), Holder("a")
    stage.settle(stage.give(message, holder))
    stage.give(message, holder, True)


def again_after_it_was_settled_for_good() -> None:
    stage = Forged(DeliveryChecker)
    message, holder = stage.confirmed(stage.queue()), Holder("a")
    stage.settle(stage.give(message, holder), True)
    stage.start_again()
    stage.give(message, holder, True)


# --- which settlements are for good -------------------------------------------------------------


def settle_and_confirm(stage: Forged, orderly: bool = False, confirms: bool = True) -> None:
    """A message is settled, a later one confirmed; the first comes again after a restart."""
    queue, holder = stage.queue(), Holder("a")
    message = stage.confirmed(queue)
    stage.settle(stage.give(message, holder))
    stage.turns += 1
    later = stage.publish(queue)
    if confirms:
        stage.confirm(later)
    stage.start_again(orderly)
    stage.give(message, holder, True)


def a_settlement_before_a_confirmed_message() -> None:
    settle_and_confirm(Forged(DurabilityChecker, DeliveryChecker))


def a_settlement_before_a_message_that_is_not_confirmed() -> None:
    settle_and_confirm(Forged(DurabilityChecker, DeliveryChecker), confirms=False)


def a_settlement_that_waits_beside_a_message() -> None:
    stage = Forged(DurabilityChecker, DeliveryChecker)
    stage.kept = True
    settle_and_confirm(stage)


def a_settlement_before_an_orderly_stop() -> None:
    settle_and_confirm(Forged(DurabilityChecker, DeliveryChecker), True, False)


# --- loss ---------------------------------------------------------------------------------------


def all_that_is_missing_may_be() -> None:
    stage = Forged(LossChecker)
    durable, classic = stage.queue(), stage.queue("classic")
    stage.settle(stage.give(stage.confirmed(durable), Holder("a")))
    stage.publish(durable)  # nobody confirmed it
    stage.confirmed(durable)  # dropped
    stage.drops = 1
    stage.confirmed(classic, persistent=False)
    purged = stage.confirmed(stage.queue())
    purged.copies[0].queue.cleared_step = purged.step + 1
    taken = stage.confirmed(stage.queue())
    taken.copies[0].queue.taken_step = taken.step
    stage.start_again()
    stage.finish()


def a_confirmed_message_is_missing() -> None:
    stage = Forged(LossChecker)
    stage.confirmed(stage.queue())
    stage.finish()


def one_more_is_missing_than_was_dropped() -> None:
    stage = Forged(LossChecker)
    queue = stage.queue()
    stage.confirmed(queue)
    stage.confirmed(queue)
    stage.drops = 1
    stage.finish()


def one_of_two_queues_lacks_a_message() -> None:
    stage = Forged(LossChecker)
    stage.settle(stage.give(stage.confirmed(stage.queue(), stage.queue()), Holder("a")))
    stage.finish()


def a_transient_message_is_missing_without_a_restart() -> None:
    stage = Forged(LossChecker)
    stage.confirmed(stage.queue("classic"), persistent=False)
    stage.finish()


# --- order --------------------------------------------------------------------------------------


def order_of_each_channel() -> None:
    stage = Forged(OrderChecker)
    queue, holder = stage.queue(), Holder("a")
    first, second = stage.publish(queue), stage.publish(queue)
    other = stage.publish(queue, channel=2)
    urgent = stage.publish(queue, priority=5)
    for message in (urgent, first, other, second):
        stage.give(message, holder)
    stage.give(first, holder, True)
    stage.give(first, Holder("b"))


def a_later_message_first() -> None:
    stage = Forged(OrderChecker)
    queue, holder = stage.queue(), Holder("a")
    first, second = stage.publish(queue), stage.publish(queue)
    stage.give(second, holder)
    stage.give(first, holder)


def a_message_twice_as_if_new() -> None:
    stage = Forged(OrderChecker)
    message, holder = stage.publish(stage.queue()), Holder("a")
    stage.give(message, holder)
    stage.give(message, holder)


# --- ranks --------------------------------------------------------------------------------------


def ranked(confirmed: bool = True, rests: bool = True, strict: bool = True) -> Forged:
    """Two messages are in a queue, and the one of lower priority comes first."""
    stage = Forged(RankChecker)
    stage.options.priorities, stage.options.strict = (0, 5), strict
    stage.rests = rests
    queue, holder = stage.queue(), Holder("a")
    publish = stage.confirmed if confirmed else stage.publish
    low, high = stage.confirmed(queue, priority=0), publish(queue, priority=5)
    checker = stage.checkers[0]
    assert isinstance(checker, RankChecker)
    checker.begin()
    stage.give(low, holder)
    stage.give(high, holder)
    return stage


def a_lower_priority_first() -> None:
    ranked()


def a_lower_priority_first_where_that_may_be() -> None:
    ranked(confirmed=False)
    ranked(rests=False)
    ranked(strict=False)


# --- replays ------------------------------------------------------------------------------------


def replayed(kind: str, stop: bool, differs: str = "") -> None:
    """A node starts with a queue; what its log gives differs from that, or what was before."""
    before, now, full = (Fifo(NOT_SET_UP, False) for _ in range(3))
    if differs:
        {"before": before, "log": full}[differs].next_message = 7
        if kind == "classic":
            {"before": before, "log": full}[differs].ready.push(1, 2, 0, 0)
    queue = SimpleNamespace(
        group_id=5, fifo=before, type=SimpleNamespace(replicated=kind == "quorum")
    )
    node = SimpleNamespace(
        queues=SimpleNamespace(logged={5: queue}),
        log=SimpleNamespace(group=lambda *_: SimpleNamespace(persisted_index=3)),
    )
    stage: Any = Forged(ReplayChecker)  # type: ignore[arg-type]
    stage.node = node
    checker = stage.checkers[0]
    checker.journal = SimpleNamespace(gather=lambda _: None, replayed=lambda *_: full)
    checker.ended(stop)
    queue.fifo = now
    checker.recovered()
    assert stage.counts["full replays"] == 1


def a_start_brings_back_what_was() -> None:
    for kind in ("quorum", "classic"):
        replayed(kind, True)
        replayed(kind, False, "before")


def an_orderly_stop_changes_a_quorum_queue() -> None:
    replayed("quorum", True, "before")


def an_orderly_stop_changes_a_classic_queue() -> None:
    replayed("classic", True, "before")


def the_whole_log_gives_another_quorum_queue() -> None:
    replayed("quorum", False, "log")


def the_whole_log_gives_another_classic_queue() -> None:
    replayed("classic", False, "log")


# --- checkouts ----------------------------------------------------------------------------------


def checked() -> tuple[Forged, CheckoutChecker, QueueState]:
    """A stage with a queue of which groups of readers take rows."""
    stage = Forged(CheckoutChecker)
    checker = stage.checkers[0]
    assert isinstance(checker, CheckoutChecker)
    return stage, checker, stage.queue()


def rows_are_taken_by_the_rules() -> None:
    stage, checker, queue = checked()
    copies = [stage.confirmed(queue).copies[0] for _ in range(3)]
    checker.acquired(queue, "g", 1, 0)
    checker.checked_out(queue, "g", 1, [(0, 1)])
    checker.checked_out(queue, "g", 1, [(0, 1)])
    checker.passed(queue, "g", 1, 1)
    checker.settled_rows(queue, "g", 1, [(0, copies[0]), (1, copies[1])])
    checker.acquired(queue, "g", 2, 1)
    checker.checked_out(queue, "g", 2, [(2, 2)])
    checker.retaken(queue, "g", 2, checker.settled_up_to(queue, "g"))
    checker.settled_rows(queue, "g", 2, [(2, copies[2])])
    checker.deleted(queue, "g", 2)
    checker.acquired(queue, "g", 3, checker.epoch(queue, "g"))
    checker.passed(queue, "g", 3, 3, checker.gone(queue, "g"))


def an_epoch_twice() -> None:
    _, checker, queue = checked()
    checker.acquired(queue, "g", 1, 0)
    checker.acquired(queue, "g", 1, 0)


def an_epoch_that_is_older() -> None:
    _, checker, queue = checked()
    checker.acquired(queue, "g", 2, 3)


def a_call_of_a_deleted_group() -> None:
    _, checker, queue = checked()
    checker.deleted(queue, "g", 4)
    checker.passed(queue, "g", 4, 4, checker.gone(queue, "g"))


def a_call_of_an_older_epoch() -> None:
    _, checker, queue = checked()
    checker.acquired(queue, "g", 2, 0)
    checker.passed(queue, "g", 1, checker.epoch(queue, "g"))


def another_checkout_of_one_number() -> None:
    _, checker, queue = checked()
    checker.checked_out(queue, "g", 1, [(0, 1)])
    checker.checked_out(queue, "g", 1, [(0, 2)])


def a_settled_checkout_again() -> None:
    stage, checker, queue = checked()
    checker.checked_out(queue, "g", 1, [(0, 0)])
    checker.settled_rows(queue, "g", 1, [(0, stage.confirmed(queue).copies[0])])
    checker.retaken(queue, "g", 1, checker.settled_up_to(queue, "g"))


def a_checkout_that_lacks_a_row() -> None:
    stage, checker, queue = checked()
    checker.checked_out(queue, "g", 1, [(0, 1)])
    checker.settled_rows(queue, "g", 1, [(0, stage.confirmed(queue).copies[0])])


def a_row_in_two_checkouts() -> None:
    stage, checker, queue = checked()
    rows = [(0, stage.confirmed(queue).copies[0])]
    for number in (1, 2):
        checker.checked_out(queue, "g", number, [(0, 0)])
        checker.settled_rows(queue, "g", number, rows)


def a_row_that_a_consumer_holds() -> None:
    stage, checker, queue = checked()
    copy = stage.give(stage.confirmed(queue), Holder("a"))
    checker.checked_out(queue, "g", 1, [(0, 0)])
    checker.settled_rows(queue, "g", 1, [(0, copy)])


def a_row_that_was_settled_before() -> None:
    stage, checker, queue = checked()
    copy = stage.give(stage.confirmed(queue), Holder("a"))
    stage.settle(copy)
    checker.checked_out(queue, "g", 1, [(0, 0)])
    checker.settled_rows(queue, "g", 1, [(0, copy)])


GOOD = (
    all_is_delivered_as_it_should_be,
    a_settlement_that_a_crash_undid,
    up_to_the_limit,
    a_settlement_before_a_message_that_is_not_confirmed,
    a_settlement_that_waits_beside_a_message,
    all_that_is_missing_may_be,
    order_of_each_channel,
    a_lower_priority_first_where_that_may_be,
    a_start_brings_back_what_was,
    rows_are_taken_by_the_rules,
)
BAD = {
    a_transient_message_after_a_restart: "outlived its process in queue q0",
    a_returned_message: "came out of queue q0",
    a_message_that_is_still_on_its_way: "came out of queue q0",
    a_held_message: "was given to b while a holds it",
    again_without_redelivered: "came again to b without redelivered",
    redelivered_at_first: "came to a redelivered, though to nobody before",
    beyond_the_limit: "after 2 rejections, with a limit of 1",
    again_after_it_was_settled: "came again after it was settled",
    again_after_it_was_settled_for_good: "came again after it was settled",
    a_settlement_before_a_confirmed_message: "came again after it was settled",
    a_settlement_before_an_orderly_stop: "came again after it was settled",
    a_confirmed_message_is_missing: "1 confirmed messages of queue q0 are lost",
    one_more_is_missing_than_was_dropped: "2 confirmed messages of queue q0 are lost",
    one_of_two_queues_lacks_a_message: "1 confirmed messages of queue q1 are lost",
    a_transient_message_is_missing_without_a_restart: "1 confirmed messages of queue q0 are lost",
    a_later_message_first: "behind #2 of the same channel",
    a_message_twice_as_if_new: "behind #1 of the same channel",
    a_lower_priority_first: "of queue q0 and priority 5 came to a behind one of priority 0",
    an_orderly_stop_changes_a_quorum_queue: "an orderly stop changed the machine",
    an_orderly_stop_changes_a_classic_queue: "an orderly stop changed the machine",
    the_whole_log_gives_another_quorum_queue: "snapshot and tail give ready",
    the_whole_log_gives_another_classic_queue: "snapshot and tail give ready",
    an_epoch_twice: "epoch 1, though there were [0, 1]",
    an_epoch_that_is_older: "epoch 2, though there were [0]",
    a_call_of_a_deleted_group: "though the group of epoch 4 was deleted before it was sent",
    a_call_of_an_older_epoch: "though epoch 2 had begun before it was sent",
    another_checkout_of_one_number: "was [(0, 1)] and is [(0, 2)]",
    a_settled_checkout_again: "checkout 1 of group g of q0 was taken again",
    a_checkout_that_lacks_a_row: "was read without the rows [1] of 2",
    a_row_in_two_checkouts: "was settled in checkout ('g', 1) and again in ('g', 2)",
    a_row_that_a_consumer_holds: "was settled as row 0, held by a",
    a_row_that_was_settled_before: "was settled as row 0 and before that",
}
HISTORIES = [History(act) for act in GOOD] + [History(act, words) for act, words in BAD.items()]
CHECKERS = (checkouts, delivery, durability, loss, order, ranks, replay)


@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_history(history: History) -> None:
    """A checker complains of this history, or does not, as it says."""
    assert (complained(history) is not None) == bool(history.words)


@pytest.mark.parametrize("module", CHECKERS, ids=lambda module: module.__name__)
def test_every_complaint_of_a_checker_is_caused(module: ModuleType) -> None:
    """No complaint of a checker is without a history that causes it."""
    caused = [complained(history) for history in HISTORIES if history.words]
    lines = {each[1] for each in caused if each is not None and each[0] == module.__name__}
    for first, last in complaints_in(module):
        assert any(first <= line <= last for line in lines), f"{module.__name__}:{first}"


def test_a_message_that_nobody_published_is_told() -> None:
    """What a client gets is compared with what was published, byte by byte."""
    stage = Forged()
    queue, other = stage.queue(), stage.queue()
    message = stage.publish(queue)
    body = b"m%08d|" % message.id
    for content, words in (
        (b"nonsense", "got what nobody published"),
        (b"m00000099|", "got what nobody published"),
        (body, "came out altered"),
    ):
        with pytest.raises(Violation, match=words):
            stage.deliver(queue, content, False, Holder("a"))
    with pytest.raises(Violation, match="came out of queue q1"):
        stage.give_from(other, message)
