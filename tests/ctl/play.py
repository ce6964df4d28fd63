"""Plays the steps to a running Warren, in this process, and to a RabbitMQ, in a chroot."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pika.exceptions

from tests.ctl.normal import Said, normal
from tests.ctl.steps import CONNECT, DEFINITIONS, GONE, NODE, OUT, STEPS, Step
from tests.support.broker import HOST
from tests.support.patience import patient
from warren.admin.cli.tools.main import main

NODE_NAME = "r5890-1@localhost"
"""Of both brokers: it is in what they say, and as wide as tables are."""
GIVEN = Path(__file__).with_name("definitions.json")

Run = Callable[[list[str], str], tuple[int, str, str]]
"""Runs a tool with its words, which reads a text; gives code, output and complaints."""


def in_process(argv: list[str], given: str) -> tuple[int, str, str]:
    """Run one of Warren's tools."""
    out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(argv[0], argv[1:])
    finally:
        sys.stdin = stdin
    return code, out.getvalue(), err.getvalue()


class Client:
    """A client that holds a connection, until it is told to go."""

    def __init__(self, port: int) -> None:
        parameters = pika.ConnectionParameters(HOST, port)
        self._connection = pika.BlockingConnection(parameters)
        channel = self._connection.channel()
        channel.queue_declare("held", durable=True)
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("held", lambda *_: None, consumer_tag="tag")
        self._connection.channel().confirm_delivery()

    def gone(self) -> tuple[int, str, str]:
        """Wait until it is told to go; code and text of that."""
        try:
            self._connection.process_data_events(patient(30))
        except pika.exceptions.ConnectionClosedByBroker as closed:
            return int(closed.reply_code), str(closed.reply_text), ""
        raise AssertionError("the connection stays")


def play(run: Run, definitions: str, out: str, known: dict[str, str], port: int) -> list[Said]:
    """What is said at each step.

    Args:
        definitions, out: Files, as the tool knows them.
        known: What else differs from broker to broker, and what it stands for.
        port: Where clients connect.
    """
    words = {DEFINITIONS: definitions, OUT: out, NODE: NODE_NAME}
    paths = {definitions: "DEFINITIONS", out: "OUT", **known}
    clients: list[Client] = []

    def one(step: Step) -> Said:
        if step.words == CONNECT:
            clients.append(Client(port))
            return Said(0, "", "")
        if step.words == GONE:
            return Said(*clients.pop().gone())
        return normal(step.words, *run(step.argv(words), step.given), paths)

    return [one(step) for step in STEPS]


def as_json(said: list[Said]) -> list[dict[str, Any]]:
    """What was said, for a file."""
    return [
        {"words": step.words, "given": step.given, **answer._asdict()}
        for step, answer in zip(STEPS, said, strict=True)
    ]
