"""A leader reads all that its copy of a queue has, before another copy is dropped for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.log.listener import RawReader
from warren.log.runlist import NO_RUNS, LiveRuns, RunList
from warren.ports import Work
from warren.replication.member import Member
from warren.replication.throttle import READ_BYTES

if TYPE_CHECKING:
    from warren.node.repairs import Repairs


@final
class CopyCheck(RawReader):
    """Of one copy, for one that is on another node."""

    def __init__(
        self,
        repairs: Repairs,
        member: Member,
        peer: str,
        incarnation: i64,
    ) -> None:
        self.member: Member = member
        self.peer: str = peer
        self.incarnation: i64 = incarnation
        self._repairs: Repairs = repairs
        self._runs: RunList = NO_RUNS
        self._next: i64 = 0
        """The first message that was not read."""

    def begin(self, runs: RunList) -> None:
        """These are all of its messages: read them."""
        self._runs = runs
        self.go_on()

    def go_on(self) -> None:
        """Read the next part, when it is its turn."""
        self.member.host.throttle().want(self.read)

    def read(self) -> None:
        """Have the log read the next part."""
        self.member.log.read_live(self._runs, self._next, READ_BYTES, self)

    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        """It could be read, or not."""
        self.member.host.throttle().done(len(data))
        self._next = next_message
        if error is not None or not self._runs.reaches(next_message):
            self._repairs.checked(self, error)
        else:
            self.go_on()


@final
class CopySearch(Work):
    """Finds out which messages a copy has, to read them all."""

    def __init__(self, live: LiveRuns, check: CopyCheck) -> None:
        self._live: LiveRuns = live
        self._check: CopyCheck = check

    def go_on(self) -> bool:
        """Do the next part; whether it was the last."""
        if not self._live.go_on():
            return False
        self._check.begin(self._live.runs)
        return True
