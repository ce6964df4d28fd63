"""How a quorum queue is to be set up, and what its log says of that.

Arguments, policies and the node's own settings say on every node how the queue is to be (`wanted`).
What counts is what the log says, in the machine's `config`: the leader writes it there, before the
first messages, and again when it is to be otherwise. Who leads next says what the one before could
not, or did not know; but not before the tables here are as new as when it began to lead, since the
one before may have gone by newer ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.queues.fifo import commands
from warren.queues.fifo.config import NOT_SET_UP, VALUE_BYTES, Config

if TYPE_CHECKING:
    from warren.queues.quorum import QuorumQueue


@final
class LoggedSettings:
    """The settings of one quorum queue, as this node has them.

    Attributes:
        wanted: What was asked for last.
        unsaid: Whether this node, which led, could not have the log say all of it.
    """

    def __init__(self, delivery_limit: i64) -> None:
        self.wanted: Config = Config(delivery_limit, False)
        self.unsaid: bool = False
        self._barrier: i64 = 0
        """Once this one has come back through the tables' log, they are new enough to lead by."""
        self._setting_up: bool = False
        """Whether this node, which leads, has the log say so before all else."""

    def want(self, queue: QuorumQueue, fields: BytesWriter) -> bool:
        """As leader, have the log say some settings, where it does not, or not for long.

        Args:
            fields: Those of a CONFIG.

        Returns:
            Whether there was something to say, and this node is the one to say it.
        """
        data = fields.getvalue()
        logged = queue.fifo.config
        says = self._may_say(queue)
        # What was asked for last counts, too: it may be on its way into the log.
        changes = says and logged.lacks_any(self.wanted, data)
        self.wanted.change(data, 0, len(data), True)
        if not says or not (changes or logged.lacks_any(self.wanted, data)):
            return False
        self._change(queue, data)
        return True

    def lead(self, queue: QuorumQueue, next_message: i64) -> None:
        """This node leads the queue from now on.

        What its log has already is not in force here yet, perhaps. If it has messages, a leader has
        set the machine up before them; to do so again by the tables as they are here would undo
        what was said since, and drop messages for a limit that is gone.

        Args:
            next_message: The number that the log gives next.
        """
        self._barrier = queue.host.next_barrier()
        self._setting_up = False
        if next_message == 0:
            self.set_up(queue)

    def set_up(self, queue: QuorumQueue) -> None:
        """As leader, have the log say everything, where no leader before came to that."""
        self._setting_up = False
        if queue.fifo.config.delivery_limit == NOT_SET_UP:
            fields = BytesWriter()
            self.wanted.encode(fields)
            self._say(queue, fields.getvalue())
            self._setting_up = not self.unsaid

    def catch_up(self, queue: QuorumQueue) -> None:
        """As leader, have the log say what is to be otherwise than it says.

        Policies changed while there was no leader, or the one before was gone too soon.
        """
        self.unsaid = False
        logged = queue.fifo.config
        if logged.delivery_limit == NOT_SET_UP:
            if not self._setting_up:
                self.set_up(queue)
            return
        fields = BytesWriter()
        for key in range(1, len(VALUE_BYTES)):
            if logged.lacks(self.wanted, key):
                self.wanted.write(fields, key)
        if len(fields) > 0:
            self._change(queue, fields.getvalue())

    def _may_say(self, queue: QuorumQueue) -> bool:
        """Whether this node leads, and the log says how the machine is set up."""
        known = self._setting_up or queue.fifo.config.delivery_limit != NOT_SET_UP
        return known and queue.proposer().leads()

    def _change(self, queue: QuorumQueue, fields: bytes) -> None:
        """Say it, or all that is to be said by then, once the tables are new enough."""
        if queue.host.tables_known(self._barrier, queue):
            self._say(queue, fields)

    def _say(self, queue: QuorumQueue, fields: bytes) -> None:
        out = BytesWriter()
        commands.config(out, fields)
        # Who is handing its lead over takes nothing, and may go on leading all the same.
        self.unsaid = not queue.proposer().propose_plain(out.getvalue())
        if self.unsaid:
            queue.host.queue_leased(queue)
