"""How much may be defined: one definition, all of them, and while memory is short."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Pair
from tests.node.test_feed import asked
from tests.protocols.line import Line
from warren.errors import PRECONDITION_FAILED, Refusal
from warren.limits import DEFINITION_BYTES_MAX, DEFINITION_BYTES_SHORT
from warren.metadata.room import weight_of_tables
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Short, Table

ROOM = 1_000_000
DEEP: Table = {"a": [{"b": Short(1)} for _ in range(500)]}
"""5 KB on the wire and 200 KB in memory."""


def little(settings: Settings) -> None:
    settings.metadata_bytes_max = ROOM


def with_limit(settings: Settings) -> None:
    settings.memory_limit_bytes = 100_000_000


def declare(name: str, arguments: Table) -> spec.Method:
    return spec.QueueDeclare(0, name, False, True, False, False, False, arguments)


def declare_exchange(name: str, arguments: Table) -> spec.Method:
    return spec.ExchangeDeclare(0, name, "headers", False, True, False, False, False, arguments)


def bind(key: str, arguments: Table) -> spec.Method:
    return spec.QueueBind(0, "q", "amq.headers", key, False, arguments)


def text_of(line: Line, method: spec.Method, channel: int = 1) -> str:
    """Why a method is refused; empty if it is done. The channel is opened anew."""
    told = line.ask(channel, method).method
    if not isinstance(told, spec.ChannelClose):
        return ""
    assert told.reply_code == 406
    line.send(channel, spec.ChannelCloseOk())
    line.ask(channel, spec.ChannelOpen())
    return told.reply_text


KINDS: list[tuple[Callable[[str, Table], spec.Method], str]] = [
    (bind, "the arguments of a binding"),
    (declare, "the arguments of a queue"),
    (declare_exchange, "the arguments of an exchange"),
]


@pytest.mark.parametrize(("make", "said"), KINDS)
def test_arguments_have_a_bound_by_what_they_take_in_memory(
    make: Callable[[str, Table], spec.Method], said: str
) -> None:
    pair = Pair(alone=True)
    line = Line(pair.a)
    assert text_of(line, declare("q", {})) == ""
    assert f"{said} would take" in text_of(line, make("deep", DEEP))
    assert f"{DEFINITION_BYTES_MAX} is the most: shorten it" in text_of(
        line, make("long", {"a": "x" * (DEFINITION_BYTES_MAX // 3)})
    )
    assert text_of(line, make("usual", {f"key-{n}": f"value {n}" for n in range(200)})) == ""


def test_what_operators_define_has_the_same_bound() -> None:
    pair = Pair(alone=True)
    definition = '{"dead-letter-routing-key": "%s"}' % ("\u00e9" * 30_000)
    with pytest.raises(Refusal) as refused:
        asked(pair, "set_policy", vhost="/", name="p", pattern=".*", definition=definition)
    assert refused.value.kind == PRECONDITION_FAILED
    assert "is the most: shorten it" in refused.value.text


def full(pair: Pair) -> tuple[Line, int]:
    """Fill what room there is with bindings; a client, and how many there are."""
    line = Line(pair.a)
    assert text_of(line, declare("q", {})) == ""
    for number in range(1_000):
        refused = text_of(line, bind(f"k{number}", {"n": number, "text": "x" * 1_000}))
        if refused:
            assert f"all definitions may take {ROOM} bytes of memory" in refused
            assert "delete some, or raise cluster.metadata_max_bytes" in refused
            return line, number
    raise AssertionError("there is no bound")


def test_all_definitions_have_a_bound_together() -> None:
    """What is there may be declared again and deleted, and makes room for others."""
    pair = Pair(alone=True, configure=little)
    line, count = full(pair)
    assert weight_of_tables(pair.a.node.metadata) <= ROOM
    assert text_of(line, bind("k0", {"n": 0, "text": "x" * 1_000})) == ""
    assert "no room for" in text_of(line, bind("more", {"text": "x" * 1_000}))
    with pytest.raises(Refusal, match="no room for the definition of a policy"):
        asked(pair, "set_policy", vhost="/", name="p", pattern=".*", definition='{"max-length": 1}')
    assert text_of(line, spec.QueueDelete(0, "q", False, False, False)) == ""
    pair.a.node.tick(0)
    assert text_of(line, declare("q", {})) == ""
    for number in range(count):
        assert text_of(line, bind(f"k{number}", {"n": number, "text": "x" * 1_000})) == ""


def test_what_this_node_wants_counts_before_it_is_in_force() -> None:
    """Nobody gets past the bound by asking for much at once."""
    pair = Pair(alone=True, configure=little)
    line = Line(pair.a, channels=10)
    assert text_of(line, declare("q", {})) == ""
    pair.a.node.tick(0)
    for number in range(1_000):
        arguments: Table = {"n": number, "text": "x" * 1_000}
        method = spec.QueueBind(0, "q", "amq.headers", f"k{number}", True, arguments)
        line.send(number % 10 + 1, method)
    pair.until(lambda: len(line.of(spec.ChannelClose)) == 10)
    assert weight_of_tables(pair.a.node.metadata) <= ROOM


def test_what_exists_above_the_bound_stays_and_is_imported_again() -> None:
    """Other nodes may have other bounds: what they let in is applied, and outlives a restart."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    assert text_of(line, declare("q", {})) == ""
    for number in range(20):
        assert text_of(line, bind(f"k{number}", {"text": "x" * 10_000})) == ""
    exported = asked(pair, "export_definitions")
    pair.configure = lambda settings: setattr(settings, "metadata_bytes_max", 100_000)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    assert weight_of_tables(pair.a.node.metadata) > 600_000
    asked(pair, "import_definitions", definitions=exported)
    line = Line(pair.a)
    assert text_of(line, bind("k0", {"text": "x" * 10_000})) == ""
    assert "no room for" in text_of(line, bind("more", {}))
    assert (
        text_of(line, spec.QueueUnbind(0, "q", "amq.headers", "k0", {"text": "x" * 10_000})) == ""
    )


def test_an_import_says_what_there_is_no_room_for() -> None:
    pair = Pair(alone=True, configure=little)
    full(pair)
    given = {
        "policies": [{"vhost": "/", "name": "p", "pattern": "x", "definition": {"max-length": 1}}]
    }
    with pytest.raises(Refusal) as refused:
        asked(pair, "import_definitions", definitions=given)
    assert "policy" in refused.value.text and "no room for" in refused.value.text


@pytest.mark.rule("R-38")
def test_what_is_large_waits_while_memory_is_short_anywhere() -> None:
    """Consumers come and declare what they need; what each node would keep has to wait."""
    pair = Pair(configure=with_limit)
    line = Line(pair.a)
    assert text_of(line, declare("q", {})) == ""
    pair.b.node.tick(200_000_000)
    pair.until(lambda: pair.a.node.alarms() != 0)
    assert text_of(line, declare("small", {"x-max-length": 5})) == ""
    assert text_of(line, bind("k", {"a": 1, "x-match": "all"})) == ""
    long: Table = {"text": "x" * DEFINITION_BYTES_SHORT}
    refused = text_of(line, bind("k", long))
    assert "memory is short" in refused and "try again when the alarm is over" in refused
    pair.b.node.tick(0)
    pair.until(lambda: pair.a.node.alarms() == 0)
    assert text_of(line, bind("k", long)) == ""
