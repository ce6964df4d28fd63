"""Publishers whose messages name further queues in their headers, as CC and BCC.

Consecutive messages mostly name the same ones, so that their properties are equal: each of them has
to come to every queue that is named, once, and to no other one.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Client
from sim.model import QueueState
from sim.publisher import Publisher
from warren.wire.amqp091.table import Table, Value, encode_table

if TYPE_CHECKING:
    from sim.stage import Stage

OTHERS_SHARE: Final = 0.2
"""How often a message names other queues than the one before it."""
FRAME_BYTES: Final = 8_192
MODES: Final = ("confirm", "plain", "tx")


@final
class Copying(Publisher):
    """Publishes to the first of its queues, and copies to the others, or to some of them."""

    def __init__(
        self, world: Stage, name: str, number: int, mode: str, queues: list[QueueState]
    ) -> None:
        super().__init__(world, name, number, mode, queues[:1])
        self._declared = queues
        self._named = queues[:1]
        self._headers = b""

    def declared(self) -> list[QueueState]:
        """All that may be named."""
        return self._declared

    def address(self) -> tuple[list[QueueState], bytes]:
        """Mostly as the message before."""
        if self.random.random() < OTHERS_SHARE or not self._headers:
            self._name_others()
        self.world.count("copies named", len(self._named) - 1)
        return self._named, self._headers

    def _name_others(self) -> None:
        """Choose who is named; a queue may be so twice, and gets a message once."""
        queues, random = self._declared, self.random
        headers: Table = {}
        named: set[Value] = {queues[0].name}
        for key in ("CC", "BCC"):
            names: list[Value] = [queue.name for queue in queues if random.random() < 0.5]
            if names:
                headers[key] = names
                named |= set(names)
        self._named = [queue for queue in queues if queue.name in named]
        table = encode_table(headers)
        self._headers = len(table).to_bytes(4, "big") + table


def add_copies(world: Stage, clients: list[Client], random: Random) -> None:
    """A connection whose publishes name more queues than one, where there are several."""
    queues = [queue for queue in world.queues if queue.durable and not queue.volatile]
    if len(queues) < 2:
        return
    client = Client(world, "cc", FRAME_BYTES)
    for number, mode in enumerate(("confirm", random.choice(MODES)), 1):
        random.shuffle(queues)
        client.actors.append(Copying(world, f"cc.{mode}{number}", number, mode, list(queues)))
    clients += [client, client]
