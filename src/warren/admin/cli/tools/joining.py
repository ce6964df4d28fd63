"""Nodes that begin anew: `reset`, behind `stop_app`, and `join_cluster`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from warren.admin.cli.tools.command import (
    CLUSTER,
    CTL,
    NODES,
    SOFTWARE,
    TEMPORARY,
    TEXT,
    TRUTH,
    UNAVAILABLE,
    Failure,
    NodeDown,
    Output,
    ToolCommand,
    Words,
    WrongWords,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession, parsed_contact
from warren.admin.service.rows import Status
from warren.config import config
from warren.config.identity import read_identity
from warren.errors import TIMED_OUT, BrokerError, ConfigError

BEGIN_SECONDS: Final = 300.0
"""How long a node may take to begin anew, or to be taken in."""
POLL_SECONDS: Final = 0.2


def _stopped(session: ToolSession) -> Status:
    """What the node says, which has to take no clients.

    Raises:
        WrongWords: It does.
    """
    status: Status = session.ask("status", {}, Status)
    if not status.drained:
        raise WrongWords(
            "Error: this command requires the 'rabbit' app to be stopped on the target node. "
            "Stop it with 'rabbitmqctl stop_app'."
        )
    return status


def _begun(session: ToolSession, words: Words, begun: Callable[[Status], bool]) -> None:
    """Wait until the node has begun anew.

    Raises:
        Failure: It has not in time.
    """
    over = time.monotonic() + (words.timeout(BEGIN_SECONDS) or BEGIN_SECONDS)
    while time.monotonic() < over:
        try:
            if begun(session.ask("status", {}, Status)):
                return
        except NodeDown:
            pass
        session.forget()
        time.sleep(POLL_SECONDS)
    raise Failure(TEMPORARY, f"node {session.node} is not done with it yet: its log says why")


def _reset(session: ToolSession, words: Words) -> Output:
    before = _stopped(session).cluster
    session.ask("reset", {}, None)
    _begun(session, words, lambda status: status.cluster != before and status.leader != "")
    return None


def _force_reset(session: ToolSession, words: Words) -> Output:
    """As RabbitMQ 4.3 does, whose metadata are replicated by votes as Warren's are."""
    _stopped(session)
    raise Failure(UNAVAILABLE, "Forced reset is unsupported: what counts on a node is not asked")


def _join(session: ToolSession, words: Words) -> Output:
    node = words.arguments[0]
    if node == session.node:
        text = f"Error: cannot cluster node with itself: {node}"
        raise Failure(SOFTWARE, text)
    host, port = _address(node, str(words.options.get("address", "")))
    asked = {"node": node, "host": host, "port": port}
    cluster = session.ask("join_cluster", asked, str, {TIMED_OUT: UNAVAILABLE})
    if not cluster:
        # It is in that one already.
        return None

    def joined(status: Status) -> bool:
        names = [row.name for row in status.nodes]
        return status.cluster == cluster and node in names and session.node in names

    _begun(session, words, joined)
    return None


def _address(node: str, given: str) -> tuple[str, int]:
    """Where the cluster listener of a node is.

    It is as given, or as the node's default data directory on this machine has it, or on the host
    that the name ends with, at the default port.

    Raises:
        Failure: What is given is no address.
    """
    try:
        if given:
            return parsed_contact(given)
        identity = read_identity(config.default_data_dir(node))
    except ConfigError as error:
        raise Failure(UNAVAILABLE, str(error).replace("--contact", "--address")) from None
    except BrokerError:
        identity = None
    if identity is not None and identity.address[1]:
        return identity.address
    return node.rpartition("@")[2], config.CLUSTER_PORT_DEFAULT


add(
    ToolCommand(
        "reset",
        (CTL,),
        "",
        NODES,
        "Has a node leave its cluster, and removes all that it has",
        _reset,
        banner=says("Resetting node {node} ..."),
    ),
    ToolCommand(
        "force_reset",
        (CTL,),
        "",
        NODES,
        "Is refused: a node leaves its cluster with reset, or is forgotten by it",
        _force_reset,
        banner=says("Forcefully resetting node {node} ..."),
    ),
    ToolCommand(
        "join_cluster",
        (CTL,),
        "[--disc] <existing_cluster_member>",
        CLUSTER,
        "Removes all that a node has, and has it join the cluster of another one",
        _join,
        1,
        1,
        {"disc": TRUTH, "address": TEXT},
        says("Clustering node {node} with {0}"),
    ),
)
