"""What operations need of the process around their node, and of who is answered over a link."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from warren.admin.service.rows import CertificateFiles, ProcessState


class OperatorHost(ABC):
    """The process around a node. The server implements it; all calls are made on its loop."""

    @abstractmethod
    def guarded(self, step: Callable[[], None]) -> None:
        """Run a step of the node; a broken invariant or a failed disk ends the process."""

    @abstractmethod
    def after_event(self) -> None:
        """Plan the node's turn, after a step that gave it something to do."""

    @abstractmethod
    async def hand_over(self) -> None:
        """Give the lead of groups to other nodes, so that their clients do not wait."""

    @abstractmethod
    def left(self) -> None:
        """End the process: the node is in its cluster no more."""

    @abstractmethod
    def reset(self, joins: tuple[str, int] | None) -> None:
        """Have the process go on with an empty data directory; clients stay out as they are.

        Args:
            joins: Host and port of a cluster listener, where the node is to join; None for a
                cluster of its own.
        """

    @abstractmethod
    def state(self) -> ProcessState:
        """What a status shows of the process."""

    @abstractmethod
    def certificates(self) -> list[CertificateFiles]:
        """The certificates of all listeners that have some, also while none of them listens."""

    @abstractmethod
    async def ask(
        self, node: str, operation: str, arguments: dict[str, Any], seconds: float
    ) -> Any:
        """What another node of the cluster answers, decoded.

        Args:
            seconds: How long each step may take.

        Raises:
            Refusal: It refuses that; or `TIMED_OUT`, it cannot be asked.
        """

    @abstractmethod
    async def ask_at(
        self,
        node: str,
        host: str,
        port: int,
        operation: str,
        arguments: dict[str, Any],
        seconds: float,
    ) -> Any:
        """The same of a node that may be in another cluster, at the address of its listener."""

    @abstractmethod
    def stop(self, status: int) -> None:
        """End the process, in good order for status 0."""

    @abstractmethod
    async def set_maintenance(self, drained: bool) -> None:
        """Take no more clients, or take them again; those that are here are not looked at.

        Raises:
            Refusal: An address cannot be listened on any more.
        """

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """All settings that are in force, by their keys, without secrets."""


class OperatorLink(Protocol):
    """The connection of an operator who asks.

    Attributes:
        closed: Done when the connection is gone.
    """

    closed: asyncio.Future[None]

    @property
    def backlog_bytes(self) -> int:
        """What was answered and has not left this process yet."""

    def answer(self, message: bytes) -> None:
        """Send an answer, or a part of one."""
