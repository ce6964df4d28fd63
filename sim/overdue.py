"""A consumer that holds messages for longer than policies say, when nothing goes wrong.

It is told in time and not too early, and gets nothing more; all that it held returns, and what it
settles after that counts for nothing. Its own timeout counts before the queue's, of which the
smaller one does, by argument or by policy. One that may hold messages for longer settles them.

Source: CT-03 to CT-07, CT-11, CT-13 to CT-15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from sim.carried import PREFETCH
from sim.governed import EARLY_MS, GOVERNED, LONG_MS, Governed, GovernedReceiver
from sim.model import Violation
from warren.queues.fifo_queue import FifoQueue
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.cluster.world import ClusterWorld

OWN_MS: Final = (-1, -1, -1, 500, LONG_MS)
"""What the consumer may ask for; -1 for nothing."""
HOLD_MS: Final = 2_500
"""It holds them for so long, where it may."""
LATE_MS: Final = 5_000
"""So much later it may be told."""
WAIT_MS: Final = 60_000
"""So long anything else may take."""


@final
class Holding(GovernedReceiver):
    """Takes messages, and does nothing with them until it is to settle them.

    Attributes:
        own_ms: For how long it asks to hold messages; negative for as long as the queue says.
        since_ms: When it began to subscribe.
        told_ms: When it was told that it held them for too long; negative if it was not.
        settles: Whether it is to settle what it is given.
    """

    queue = GOVERNED
    own_ms = -1
    since_ms = 0
    told_ms = -1
    settles = False

    def __init__(self, world: ClusterWorld, name: str, number: int, governed: Governed) -> None:
        super().__init__(world, name, number, governed)
        self.cluster = world

    def set_up(self) -> None:
        """Subscribe."""
        self.since_ms = self.world.now_ms()
        super().set_up()

    def arguments(self) -> Table:
        """A timeout of its own, perhaps."""
        return {"x-consumer-timeout": self.own_ms} if self.own_ms >= 0 else {}

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, or the word that it held some for too long.

        Raises:
            Violation: A message comes after that.
        """
        if isinstance(method, spec.BasicCancel):
            self.told_ms = self.world.now_ms()
            return
        if self.told_ms >= 0:
            raise Violation(f"{self.name} was timed out, and gets {method.NAME}")
        super().pushed(method, content)

    def take(self, number: int) -> None:
        """It is held."""

    def act(self) -> None:
        """Settle all at once, when it is time."""
        if self.settles and self.held:
            self.send(spec.BasicAck(max(self.held), True))
            for number in self.held.values() if self.told_ms < 0 else ():
                self.governed.take(number)
            self.held = {}


def hold(holding: Holding, may_ms: int, ready: list[int]) -> None:
    """Have a consumer that has just come hold what it gets, and settle it in the end.

    Args:
        may_ms: For how long it may hold messages; negative for longer than any run.
        ready: What is there.

    Raises:
        Violation: It is told too early, too late or without a reason, or what it held stays.
    """
    world, governed = holding.cluster, holding.governed
    most = min(len(ready), PREFETCH)
    world.until(
        WAIT_MS,
        "a governed queue gives nothing out",
        lambda: len(holding.held) >= most or holding.told_ms >= 0,
    )
    if 0 <= may_ms < HOLD_MS:
        late = "a consumer that held messages for too long is not told"
        world.until(may_ms + LATE_MS, late, lambda: holding.told_ms >= 0)
        held_ms = holding.told_ms - holding.since_ms
        if held_ms + EARLY_MS < may_ms:
            raise Violation(f"{holding.name} was timed out after {held_ms} ms, not {may_ms}")
        stays = "what was held for too long does not return"
        world.until(WAIT_MS, stays, lambda: not _is_held(world))
        governed.returned.update(holding.held.values())
        world.count("timed out in a trial")
    else:
        end = world.now_ms() + HOLD_MS
        world.until(HOLD_MS + WAIT_MS, "time does not pass", lambda: world.now_ms() >= end)
        if holding.told_ms >= 0:
            raise Violation(f"{holding.name} was timed out, and may hold messages for {may_ms} ms")
        world.count("held for long in a trial")
    holding.settles = True
    rest = set() if holding.told_ms >= 0 else set(ready)
    world.until(WAIT_MS, "what is held is not settled", lambda: _is_through(holding, rest))


def _is_through(holding: Holding, rest: set[int]) -> bool:
    """Whether its node knows what it has settled, and some messages are among that."""
    connection = holding.connection
    handed = connection is not None and not connection.outbox and not holding.held
    return handed and rest <= holding.governed.taken and not _is_held(holding.cluster)


def _is_held(world: ClusterWorld) -> bool:
    """Whether anybody holds anything of the queue, by any copy of it."""
    for site in world.running():
        assert site.node is not None
        vhost = site.node.queues.vhosts.get("/")
        queue = None if vhost is None else vhost.queues.get(GOVERNED)
        if isinstance(queue, FifoQueue) and queue.fifo.held_count() > 0:
            return True
    return False
