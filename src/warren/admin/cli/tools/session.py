"""The node that a tool asks: how it is found, and how it is asked.

It is the node of `--data-dir`, or the one that `--node` names: a node on this machine by its data
directory, or another one of the same cluster, whose address a node on this machine knows.
"""

from __future__ import annotations

import argparse
import os
import re
import ssl
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from warren.admin.cli.asking import FOLDER_VARIABLE, Contact, ask, find_node
from warren.admin.cli.tools.command import (
    DATA,
    DIAGNOSTICS,
    SOFTWARE,
    TEMPORARY,
    UNAVAILABLE,
    Failure,
    NodeDown,
    Words,
)
from warren.admin.service.rows import Status
from warren.config import config
from warren.config.identity import read_identity
from warren.config.peer_tls import why
from warren.errors import NOT_FOUND, NOT_IMPLEMENTED, TIMED_OUT, BrokerError, ConfigError

NODE_VARIABLE: Final = "RABBITMQ_NODENAME"
CONTACT_VARIABLE: Final = "WARREN_CONTACT"
SECRET_FILE_VARIABLE: Final = "WARREN_SECRET_FILE"
CONFIG_VARIABLES: Final = ("WARREN_CONFIG", "RABBITMQ_CONFIG_FILE")
WAIT_SECONDS: Final = 60.0
NO_VHOST: Final = re.compile(r"(?:vhost|Virtual host) '(.*)' does not exist")

CODES: Final = {NOT_FOUND: UNAVAILABLE, NOT_IMPLEMENTED: UNAVAILABLE, TIMED_OUT: TEMPORARY}
"""The exit codes of refusals, by their kinds; others are `UNAVAILABLE`."""


class ToolSession:
    """One run of one tool.

    Attributes:
        tool: Its name.
        node: The name of the node that it asks.
        seconds: How long the node may take for an answer.
    """

    def __init__(self, tool: str, words: Words) -> None:
        """Prepare; nothing is asked before `ask`.

        Raises:
            WrongWords: The node's name is none.
        """
        options = words.options
        self.tool = tool
        self.node = node_name(options)
        self.seconds = words.timeout(WAIT_SECONDS) or WAIT_SECONDS * 60
        self._options = options
        self._contact: Contact | None = None

    def ask(
        self,
        operation: str,
        arguments: dict[str, Any],
        shape: Any,
        codes: Mapping[str, int] = CODES,
        seconds: float | None = None,
    ) -> Any:
        """What the node answers.

        Args:
            operation: One of `service.catalogue`.
            shape: The type of the answer.
            codes: The exit codes of refusals that are not as usual, by their kinds.
            seconds: How long it may take, if that is not as usual.

        Raises:
            NodeDown: It cannot be asked.
            Failure: It refuses that.
        """
        contact = self.contact()
        limit = self.seconds if seconds is None else seconds
        try:
            answer = ask(*contact, [operation, arguments], limit)
        except TimeoutError as error:
            if "timed out" not in str(error):
                raise NodeDown(str(error)) from None
            raise Failure(
                TEMPORARY,
                f"operation {operation} on node {self.node} timed out. "
                f"Timeout value used: {int(limit * 1000)}",
            ) from None
        except (OSError, ssl.SSLError, ConfigError) as error:
            raise NodeDown(reason(error, contact)) from None
        if answer[0] != "ok":
            kind = str(answer[2]) if len(answer) > 2 else ""
            raise refused(str(answer[1]), kind, codes)
        try:
            return msgspec.convert(answer[1], shape)
        except msgspec.ValidationError as error:
            raise Failure(
                SOFTWARE, f"node {self.node} gives the answer of another version: {error}"
            ) from None

    def forget(self) -> None:
        """Look for the node anew with the next request: it may have another address then."""
        self._contact = None

    def contact(self) -> Contact:
        """Find the address of the node, and what it takes to ask it.

        Raises:
            NodeDown: It is not known.
        """
        if self._contact is None:
            try:
                self._contact = self._found()
            except BrokerError as error:
                raise NodeDown(str(error)) from None
        return self._contact

    def _found(self) -> Contact:
        options = self._options
        named = "node" in options or NODE_VARIABLE in os.environ
        folder = options.get("data_dir") or os.environ.get(FOLDER_VARIABLE)
        contact = options.get("contact") or os.environ.get(CONTACT_VARIABLE)
        if folder is None and contact is None:
            own = config.default_data_dir(self.node)
            if read_identity(own) is not None:
                return find_node(self._asking(own, None))
            folder = config.default_data_dir(config.default_node_name())
            if read_identity(folder) is None:
                raise ConfigError(
                    f"{own} is not the data directory of a node: name one with --data-dir or "
                    f"{FOLDER_VARIABLE}, or a node's cluster listener with --contact"
                )
        first = find_node(self._asking(folder, contact))
        if not named:
            return first
        for name, host, port in self._nodes(folder, contact, first):
            if name == self.node:
                return Contact(host, port, first.secret, first.tls)
        raise ConfigError(f"node '{self.node}' is not in the cluster that was asked")

    def _nodes(
        self, folder: str | None, contact: str | None, first: Contact
    ) -> list[tuple[str, str, int]]:
        """Names and addresses of a node and of those that it is in a cluster with."""
        identity = None if folder is None else read_identity(folder)
        if contact is None and identity is not None:
            known = [(identity.name, first.host, first.port), *identity.nodes]
            if self.node in [name for name, _, _ in known]:
                return known
            # One that has just come is not written down yet.
        status = msgspec.convert(self._status_of(first), Status)
        rows = [(row.name, *row.address.rpartition(":")[::2]) for row in status.nodes]
        return [(name, host, int(port)) for name, host, port in rows]

    def _status_of(self, contact: Contact) -> Any:
        try:
            answer = ask(*contact, ["status", {}], self.seconds)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(reason(error, contact)) from None
        if answer[0] != "ok":
            raise ConfigError(str(answer[1]))
        return answer[1]

    def _asking(self, folder: str | None, contact: str | None) -> argparse.Namespace:
        options = self._options
        found = [os.environ.get(name) for name in CONFIG_VARIABLES]
        file = options.get("config") or next((name for name in found if name), None)
        return argparse.Namespace(
            config=file if file and os.path.exists(file) else None,
            node_name=self.node,
            data_dir=folder,
            contact=None if contact is None else parsed_contact(contact),
            secret_file=options.get("secret_file") or os.environ.get(SECRET_FILE_VARIABLE),
        )

    def down(self, why_not: str) -> str:
        """What is said where the node cannot be reached."""
        return (
            f"Error: unable to perform an operation on node '{self.node}'. Please see diagnostics "
            "information and suggestions below.\n\n"
            "Most common reasons for this are:\n\n"
            " * the node does not run, or cannot be reached over its cluster listener\n"
            " * the tool looks for its data directory in another place: see --data-dir and "
            f"{FOLDER_VARIABLE}\n"
            " * the tool and the node have not the same secret: see --secret-file\n\n"
            "DIAGNOSTICS\n===========\n\n"
            f"attempted to contact: [{self.node}]\n\n{self.node}:\n  * {why_not}\n"
        )

    @property
    def diagnoses(self) -> bool:
        """Whether the tool is `rabbitmq-diagnostics`."""
        return self.tool == DIAGNOSTICS


def node_name(options: dict[str, Any]) -> str:
    """The name of the node that words and environment name."""
    given = options.get("node") or os.environ.get(NODE_VARIABLE)
    if given is None:
        folder = options.get("data_dir") or os.environ.get(FOLDER_VARIABLE)
        identity = None if folder is None else read_identity(folder)
        return config.default_node_name() if identity is None else identity.name
    try:
        return config.parse_node_name(given)
    except ValueError:
        return str(given)


def parsed_contact(text: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        ConfigError: They are none.
    """
    try:
        return config.parse_contact(text)
    except ValueError as error:
        raise ConfigError(f"--contact {text}: allowed is {error}") from None


def reason(error: Exception, contact: Contact) -> str:
    """Why a node was not reached."""
    if isinstance(error, BrokerError):
        return str(error)
    assert isinstance(error, OSError)
    return f"{contact.host}:{contact.port}: {why(error, contact.tls is not None)}"


def refused(text: str, kind: str, codes: Mapping[str, int]) -> Failure:
    """What a refusal of the node is for the operator."""
    vhost = NO_VHOST.fullmatch(text)
    if vhost is not None:
        return Failure(DATA, f"Virtual host '{vhost[1]}' does not exist", bare=True)
    return Failure(codes.get(kind, CODES.get(kind, UNAVAILABLE)), text)
