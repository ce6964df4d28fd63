"""amqp-tools (Debian, on librabbitmq in C) against the broker, as a shell script would use them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.fixtures import Names
from tests.clients.support import BODY_SIZES, body_of, get, holds
from tests.support.patience import patient

pytestmark = pytest.mark.skipif(
    shutil.which("amqp-publish") is None, reason="needs amqp-tools; `make test` installs them"
)


class Tools:
    """Runs the tools against one broker."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.url = f"amqp://guest:guest@{address[0]}:{address[1]}/%2f"

    def run(
        self, tool: str, *options: str, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `amqp-<tool>` and return what it printed."""
        return subprocess.run(
            [f"amqp-{tool}", "--url", self.url, *options],
            input=stdin, capture_output=True, timeout=patient(60), check=False,
        )  # fmt: skip

    def out(self, tool: str, *options: str, stdin: bytes = b"") -> bytes:
        """Run a tool that has to succeed."""
        done = self.run(tool, *options, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def tools(amqp_address: tuple[str, int]) -> Tools:
    """The tools, set to the broker."""
    return Tools(amqp_address)


def test_declare_publish_get_delete(tools: Tools, names: Names, channel: BlockingChannel) -> None:
    queue = names.queue()
    assert tools.out("declare-queue", "-d", "-q", queue).strip().decode() == queue
    tools.out("publish", "-r", queue, "-p", "-C", "text/plain", "-H", "key: value", "-b", "hello")
    holds(channel, queue, 1)
    assert tools.out("get", "-q", queue) == b"hello"
    assert tools.run("get", "-q", queue).returncode == 2  # empty
    tools.out("publish", "-r", queue, "-p", "-C", "text/plain", "-H", "key: value", "-b", "again")
    _, props, body = get(channel, queue)
    assert (props.content_type, props.delivery_mode, body) == ("text/plain", 2, b"again")
    assert props.headers == {"key": "value"}
    tools.out("publish", "-r", queue, "-b", "left")
    holds(channel, queue, 1)
    assert tools.out("delete-queue", "-q", queue).strip() == b"1"
    assert tools.run("get", "-q", queue).returncode == 1


def test_server_named_queue(tools: Tools, names: Names) -> None:
    name = names.queue(tools.out("declare-queue", "-q", "").strip().decode())
    assert name.startswith("amq.gen-")


@pytest.mark.rule("QQ-03")
def test_bodies(tools: Tools, queue: str, channel: BlockingChannel) -> None:
    for size in BODY_SIZES:
        tools.out("publish", "-r", queue, "-p", stdin=body_of(size))
        holds(channel, queue, 1)
        assert tools.out("get", "-q", queue) == body_of(size)


def test_consume(tools: Tools, queue: str, channel: BlockingChannel) -> None:
    """Each message goes to a command; one that fails puts its message back."""
    tools.out("publish", "-r", queue, "-l", stdin=b"one\ntwo\nthree\n")
    holds(channel, queue, 3)
    out = tools.out("consume", "-q", queue, "-c", "2", "-p", "1", "cat")
    assert out.split() == [b"one", b"two"]
    holds(channel, queue, 1)
    assert tools.out("consume", "-q", queue, "-A", "-c", "1", "cat").split() == [b"three"]


def test_bound_exclusive_consumer(
    tools: Tools, amqp_address: tuple[str, int], names: Names
) -> None:
    """A consumer declares its own queue, binds it and gets what is published meanwhile."""
    consumer = subprocess.Popen(
        ["amqp-consume", "--url", tools.url, "-e", "amq.direct", "-r", "tools", "-c", "1", "cat"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert consumer.stderr is not None
    line = consumer.stderr.readline()  # it names the queue it was given once all is declared
    assert b"amq.gen-" in line, line
    for _ in range(200):
        tools.out("publish", "-e", "amq.direct", "-r", "tools", "-b", "found")
        if consumer.poll() is not None:
            break
    out, _ = consumer.communicate(timeout=patient(20))
    assert out.startswith(b"found")


def test_refusals(tools: Tools, names: Names) -> None:
    done = tools.run("get", "-q", names.queue())
    assert done.returncode == 1 and b"404" in done.stderr
    tools.url = tools.url.replace("guest:guest", "guest:wrong")
    done = tools.run("get", "-q", "any")
    assert done.returncode == 1 and done.stderr
