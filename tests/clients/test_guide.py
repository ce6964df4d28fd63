"""What docs/queues.md advises can be done: its examples run as they stand there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pika
import pytest

from tests.support.broker import Broker, free_port
from tests.support.patience import patient

GUIDE = Path(__file__).parents[2] / "docs" / "queues.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A block of the guide."""

    language: str
    text: str


def examples(title: str) -> list[Example]:
    """The blocks below a heading, in order."""
    section = GUIDE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [Example(*found) for found in BLOCK.findall(section)]


@pytest.fixture
def run(
    make_broker: Callable[..., Broker],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[str], list[str]]:
    """Runs the examples below a heading; gives the lines that those in Python print."""
    broker = make_broker("--cluster-port", str(free_port())).start()
    monkeypatch.setattr(pika.connection.Parameters, "DEFAULT_PORT", broker.port)
    monkeypatch.setattr(pika.connection.Parameters, "DEFAULT_HOST", broker.host)

    def run(title: str) -> list[str]:
        for example in examples(title):
            if example.language == "python":
                exec(compile(example.text, str(GUIDE), "exec"), {})
                continue
            for line in example.text.splitlines():
                program, *words = shlex.split(line)
                assert program == "warren"
                where = ["--uri", broker.url] if words[0] == "declare" else []
                if not where:
                    where = ["--data-dir", str(broker.data_dir)]
                command = [sys.executable, "-m", "warren", *words, *where]
                subprocess.run(command, check=True, timeout=patient(60))
        return capsys.readouterr().out.splitlines()

    return run


def test_each_example_is_run_by_a_test_below() -> None:
    titles = re.findall(r"^## (.*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    mine = Path(__file__).read_text(encoding="utf-8")
    assert [title for title in titles if examples(title) and f'run("{title}")' not in mine] == []


@pytest.mark.rule("NAME-06")
def test_names_that_the_broker_makes_travel_in_messages(run: Callable[[str], list[str]]) -> None:
    (line,) = run("Names that the broker makes")
    assert re.fullmatch(r"amq\.gen-\S+ b'144'", line)


@pytest.mark.rule("PRI-05")
def test_a_queue_for_each_level_of_urgency(run: Callable[[str], list[str]]) -> None:
    """What is urgent does not wait for all that came before."""
    (line,) = run("Urgent and less urgent messages")
    done = eval(line)
    assert sorted(done) == sorted(["urgent", *(f"bulk {number}" for number in range(6))])
    assert done.index("urgent") < 3


@pytest.mark.rule("DL-05", "POI-09")
def test_a_dead_letter_exchange_takes_what_keeps_failing(run: Callable[[str], list[str]]) -> None:
    lines = run("Messages that keep failing")
    assert lines[-1] == "b'poison' delivery_limit"
    assert lines[-5:-1] == [f"b'poison' {count}" for count in range(4)]
    connection = pika.BlockingConnection()
    channel = connection.channel()
    arguments = {"x-queue-type": "quorum"}
    channel.queue_declare("orders.x", durable=True, arguments=arguments)
    channel.basic_publish("", "orders.x", "lost")
    method, _, _ = next(channel.consume("orders.x"))
    channel.basic_reject(method.delivery_tag, requeue=False)
    _, properties, body = next(connection.channel().consume("failed"))
    assert (body, properties.headers["x-first-death-reason"]) == (b"lost", "rejected")
    connection.close()


@pytest.mark.rule("RES-02")
def test_operators_limit_the_length_of_queues(run: Callable[[str], list[str]]) -> None:
    assert run("Short queues") == []
    connection = pika.BlockingConnection()
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 2})
    for _ in range(3):
        channel.basic_publish("", "q", b"x")
    assert channel.queue_declare("q", passive=True).method.message_count == 2
    connection.close()


@pytest.mark.rule("CQ-11")
def test_several_queues_share_a_heavy_load(run: Callable[[str], list[str]]) -> None:
    (line,) = run("More than one processor")
    held = eval(line)
    assert sum(held) == 400 and min(held) > 0 and all(count % 10 == 0 for count in held)


@pytest.mark.rule("TUN-04")
def test_consumers_with_a_large_prefetch_and_a_long_time(run: Callable[[str], list[str]]) -> None:
    assert run("Consumers") == ["all"]
