"""What clients may change, with RabbitMQ 4.3's own answers: every text here was seen on its wire.

Texts that end in `is not supported yet by this version of Warren` are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from warren.errors import Refusal
from warren.metadata import checks
from warren.metadata.arguments import LEADER_LOCATORS
from warren.metadata.commands import Command
from warren.metadata.machine import MetadataMachine, Outcome
from warren.metadata.names import clean_name, server_name
from warren.metadata.permissions import first_commands
from warren.metadata.tables import QueueRecord
from warren.wire.amqp091.table import SignedInt, Table, Timestamp

QUORUM: Table = {"x-queue-type": "quorum"}
ME = 7
OTHER = 8


class Tables:
    """A machine with the calls a channel makes."""

    def __init__(self) -> None:
        self.machine = MetadataMachine()
        self.group_id = 0
        for command in first_commands(b"salt", "/", "guest", "guest", True):
            self.apply(command)

    def apply(self, command: Command | None) -> Outcome | None:
        if command is None:
            return None
        return self.machine.apply(self.machine.applied_index + 1, command)

    def queue(
        self,
        arguments: Table | None = None,
        name: str = "q",
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        connection: int = ME,
    ) -> Outcome | None:
        self.group_id += 1
        return self.apply(
            checks.declare_queue(
                self.machine,
                "/",
                name,
                durable,
                exclusive,
                auto_delete,
                arguments or {},
                connection,
                self.group_id,
            )
        )

    def exchange(
        self,
        name: str = "x",
        kind: str = "direct",
        arguments: Table | None = None,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
    ) -> Outcome | None:
        return self.apply(
            checks.declare_exchange(
                self.machine, "/", name, kind, durable, auto_delete, internal, arguments or {}
            )
        )

    def bind(self, *request: Any, **options: Any) -> Outcome | None:
        return self._binding(checks.bind, *request, **options)

    def unbind(self, *request: Any, **options: Any) -> Outcome | None:
        return self._binding(checks.unbind, *request, **options)

    def _binding(
        self,
        check: Callable[..., Command | None],
        source: str,
        destination: str,
        key: str = "",
        arguments: Table | None = None,
        to_exchange: bool = False,
        connection: int = ME,
    ) -> Outcome | None:
        """Apply what `check` makes of a request."""
        return self.apply(
            check(
                self.machine,
                "/",
                source,
                destination,
                to_exchange,
                key,
                arguments or {},
                connection,
            )
        )

    def delete_queue(self, name: str = "q", connection: int = ME) -> Outcome | None:
        return self.apply(checks.delete_queue(self.machine, "/", name, False, False, connection))

    def found(self, name: str = "q") -> QueueRecord:
        queue = self.machine.queue("/", name)
        assert queue is not None
        return queue

    def exchanges(self) -> set[str]:
        return {name for name in self.machine.vhosts["/"].exchanges if not name.startswith("amq.")}


@pytest.fixture
def tables() -> Tables:
    return Tables()


def refusal(action: Callable[[], object]) -> str:
    """The reply text that an action ends in."""
    with pytest.raises(Refusal) as caught:
        action()
    return str(caught.value)


# --- queues -------------------------------------------------------------------------------------


@pytest.mark.rule("PROP-06")
@pytest.mark.rule("PROP-07")
def test_declare_creates_once(tables: Tables) -> None:
    created = tables.queue()
    assert created is not None
    assert created.created_queue is tables.found()
    assert tables.queue() is None


@pytest.mark.rule("QQ-02")
def test_type_is_in_the_stored_arguments(tables: Tables) -> None:
    tables.queue(QUORUM)
    tables.queue({}, name="c")
    assert tables.found().kind == "quorum"
    assert tables.found().arguments == {"x-queue-type": "quorum"}
    assert tables.found("c").kind == "classic"
    assert tables.found("c").arguments == {"x-queue-type": "classic"}


def test_exclusive_queue_is_never_durable(tables: Tables) -> None:
    tables.queue(exclusive=True, durable=True)
    assert not tables.found().durable
    assert tables.queue(exclusive=True, durable=False) is None


@pytest.mark.rule("PROP-08")
@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            {"x-queue-mode": "lazy"},
            {},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': "
            "received none but current is the value 'lazy' of type 'longstr'",
        ),
        (
            {},
            {"x-queue-mode": "lazy"},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': "
            "received the value 'lazy' of type 'longstr' but current is none",
        ),
        (
            {"x-queue-mode": "lazy"},
            {"x-queue-mode": "default"},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': "
            "received 'default' but current is 'lazy'",
        ),
        (
            {"x-queue-mode": SignedInt(5)},
            {"x-queue-mode": 1 << 40},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': "
            "received '1099511627776' but current is '5'",
        ),
        (
            {"x-queue-mode": True},
            {"x-queue-mode": 1},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': received '1' but current is 'true'",
        ),
        (
            {"x-queue-mode": [SignedInt(1), "a"]},
            {"x-queue-mode": {"a": "b"}},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': "
            """received '[{<<"a">>,longstr,<<"b">>}]' but current is """
            """'[{signedint,1},{longstr,<<"a">>}]'""",
        ),
        (
            {"x-queue-mode": 'é"\\'},
            {"x-queue-mode": ['é"\\']},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': "
            """received '[{longstr,<<"é\\"\\\\"/utf8>>}]' but current is 'é"\\'""",
        ),
        (
            {"x-queue-mode": "5"},
            {"x-queue-mode": 5},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': received '5' but current is '5'",
        ),
        (
            {},
            {"x-queue-mode": Timestamp(1577836800)},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': "
            "received the value '1577836800' of type 'timestamp' but current is none",
        ),
        (
            {},
            {"x-queue-mode": [SignedInt(1)]},
            "arg 'x-queue-mode' for queue 'q' in vhost '/': "
            "received the value '[{signedint,1}]' of type 'array' but current is none",
        ),
        (
            {},
            {"x-message-ttl": SignedInt(5)},
            "arg 'x-message-ttl' for queue 'q' in vhost '/': "
            "received the value '5' of type 'signedint' but current is none",
        ),
        (
            {},
            QUORUM,
            "arg 'x-queue-type' for queue 'q' in vhost '/': "
            "received 'quorum' but current is 'classic'",
        ),
        (
            QUORUM,
            {},
            "arg 'x-queue-type' for queue 'q' in vhost '/': "
            "received 'classic' but current is 'quorum'",
        ),
        (
            QUORUM | {"x-quorum-initial-group-size": 3},
            QUORUM | {"x-quorum-initial-group-size": 5},
            "arg 'x-quorum-initial-group-size' for queue 'q' in vhost '/': "
            "received '5' but current is '3'",
        ),
        (
            QUORUM,
            QUORUM | {"x-quorum-initial-group-size": SignedInt(3)},
            "arg 'x-quorum-initial-group-size' for queue 'q' in vhost '/': "
            "received the value '3' of type 'signedint' but current is none",
        ),
        (
            QUORUM | {"x-queue-leader-locator": "balanced"},
            QUORUM,
            "arg 'x-queue-leader-locator' for queue 'q' in vhost '/': "
            "received none but current is the value 'balanced' of type 'longstr'",
        ),
        (
            {"x-queue-leader-locator": "client-local"},
            {"x-queue-leader-locator": "balanced"},
            "arg 'x-queue-leader-locator' for queue 'q' in vhost '/': "
            "received 'balanced' but current is 'client-local'",
        ),
        (
            {"x-queue-type": ""},
            {},
            "arg 'x-queue-type' for queue 'q' in vhost '/': received 'classic' but current is ''",
        ),
    ],
)
def test_inequivalent_arguments(tables: Tables, first: Table, second: Table, text: str) -> None:
    tables.queue(first)
    assert refusal(lambda: tables.queue(second)) == f"PRECONDITION_FAILED - inequivalent {text}"


@pytest.mark.rule("PROP-07")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"x-queue-type": "classic"}),
        ({"x-queue-type": "classic"}, {}),
        ({"x-mine": 1}, {"x-mine": 2}),
        ({"x-queue-version": SignedInt(2)}, {"x-queue-version": 2}),
        (
            QUORUM | {"x-quorum-initial-group-size": SignedInt(5)},
            QUORUM | {"x-quorum-initial-group-size": 5},
        ),
    ],
)
def test_equivalent_arguments(tables: Tables, first: Table, second: Table) -> None:
    tables.queue(first)
    assert tables.queue(second) is None


@pytest.mark.rule("PROP-08")
def test_inequivalent_flags(tables: Tables) -> None:
    tables.queue()
    assert refusal(lambda: tables.queue(durable=False, auto_delete=True)) == (
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': "
        "received 'false' but current is 'true'"
    )
    assert refusal(lambda: tables.queue(auto_delete=True)) == (
        "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in vhost '/': "
        "received 'true' but current is 'false'"
    )


@pytest.mark.rule("DUR-11")
def test_exclusive_queue_is_locked_to_others(tables: Tables) -> None:
    locked = (
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration."
    )
    tables.queue(exclusive=True)
    machine = tables.machine
    assert refusal(lambda: checks.use_queue(machine, "/", "q", OTHER)) == locked
    assert refusal(lambda: tables.queue(exclusive=True, connection=OTHER)) == locked
    assert refusal(lambda: tables.queue(durable=False)) == locked
    assert refusal(lambda: tables.bind("amq.direct", "q", connection=OTHER)) == locked
    assert refusal(lambda: tables.delete_queue(connection=OTHER)) == locked
    tables.bind("amq.direct", "q", "k")
    assert refusal(lambda: tables.unbind("amq.direct", "q", "k", connection=OTHER)) == locked
    assert tables.unbind("amq.direct", "q", "unknown", connection=OTHER) is None
    assert checks.use_queue(machine, "/", "q", ME) is tables.found()
    tables.queue(name="open")
    assert "locked queue 'open'" in refusal(lambda: tables.queue(name="open", exclusive=True))


@pytest.mark.rule("QQ-06")
@pytest.mark.rule("QQ-08")
@pytest.mark.rule("DUR-07")
def test_quorum_queue_restrictions(tables: Tables) -> None:
    refused = "PRECONDITION_FAILED - invalid property '{}' for queue 'q' in vhost '/'"
    assert refusal(lambda: tables.queue(QUORUM, durable=False)) == refused.format("non-durable")
    assert refusal(lambda: tables.queue(QUORUM, exclusive=True)) == refused.format(
        "exclusive-owner"
    )
    assert refusal(
        lambda: tables.queue(QUORUM, durable=False, exclusive=True, auto_delete=True)
    ) == refused.format("auto-delete")


@pytest.mark.rule("NAME-07")
def test_quorum_queue_needs_a_name() -> None:
    assert refusal(lambda: checks.server_named(QUORUM)) == (
        "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    )
    checks.server_named({})


@pytest.mark.rule("NAME-04")
def test_server_makes_names_in_its_own_part_of_the_name_space(tables: Tables) -> None:
    name = server_name(bytes(range(16)))
    assert name == "amq.gen-AAECAwQFBgcICQoLDA0ODw"
    command = checks.declare_queue(
        tables.machine, "/", name, False, True, False, {}, ME, 1, named_by_server=True
    )
    assert command is not None
    tables.apply(command)
    assert refusal(lambda: tables.queue(name=name, exclusive=True)) == (
        f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'"
    )


@pytest.mark.rule("NAME-03")
def test_reserved_queue_name(tables: Tables) -> None:
    assert refusal(lambda: tables.queue(name="amq.mine")) == (
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    )
    assert refusal(lambda: checks.use_queue(tables.machine, "/", "amq.mine", ME)) == (
        "NOT_FOUND - no queue 'amq.mine' in vhost '/'"
    )


def test_line_breaks_are_cut_from_names() -> None:
    assert clean_name("p.\r\nq") == "p.q"
    assert clean_name("p.q") == "p.q"


@pytest.mark.rule("REP-03")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-queue-version": 1}, """'x-queue-version' for {}: "unsupported queue version '1'\""""),
        (
            {"x-queue-version": "2"},
            """'x-queue-version' for {}: "expected integer, got longstr\"""",
        ),
        ({"x-queue-version": -1}, "'x-queue-version' for {}: {{value_negative,-1}}"),
        (
            {"x-queue-leader-locator": "x"},
            "'x-queue-leader-locator' for {}: invalid_queue_locator_arg",
        ),
        (
            {"x-queue-leader-locator": SignedInt(5)},
            "'x-queue-leader-locator' for {}: {{unacceptable_type,signedint}}",
        ),
        ({"x-delivery-limit": 5}, "'x-delivery-limit' for {} of queue type rabbit_classic_queue"),
        ({"x-max-age": "1D"}, "'x-max-age' for {} of queue type rabbit_classic_queue"),
        (
            {"x-max-in-memory-length": 5},
            "'x-max-in-memory-length' for {} of queue type rabbit_classic_queue",
        ),
        (
            QUORUM | {"x-quorum-initial-group-size": 0},
            "'x-quorum-initial-group-size' for {}: {{value_zero,0}}",
        ),
        (
            QUORUM | {"x-quorum-initial-group-size": -3},
            "'x-quorum-initial-group-size' for {}: {{value_negative,-3}}",
        ),
        (
            QUORUM | {"x-quorum-initial-group-size": "3"},
            """'x-quorum-initial-group-size' for {}: "expected integer, got longstr\"""",
        ),
        (
            {"x-quorum-initial-group-size": 3},
            "'x-quorum-initial-group-size' for {} of queue type rabbit_classic_queue",
        ),
        (
            QUORUM | {"x-queue-leader-locator": "leader"},
            "'x-queue-leader-locator' for {}: invalid_queue_locator_arg",
        ),
        (
            QUORUM | {"x-max-in-memory-length": True},
            """'x-max-in-memory-length' for {}: "expected integer, got bool\"""",
        ),
        (
            QUORUM | {"x-max-in-memory-bytes": Timestamp(1)},
            """'x-max-in-memory-bytes' for {}: "expected integer, got timestamp\"""",
        ),
        (
            QUORUM | {"x-queue-mode": "lazy"},
            "'x-queue-mode' for {} of queue type rabbit_quorum_queue",
        ),
        (
            QUORUM | {"x-max-priority": 5},
            "'x-max-priority' for {} of queue type rabbit_quorum_queue",
        ),
        (
            {"x-queue-type": "sideways"},
            """'x-queue-type' for {}: "unsupported queue type 'sideways'\"""",
        ),
        ({"x-queue-type": SignedInt(1)}, "'x-queue-type' for {}: {{unacceptable_type,signedint}}"),
    ],
)
def test_wrong_arguments(tables: Tables, arguments: Table, text: str) -> None:
    expected = text.format("queue 'q' in vhost '/'")
    assert refusal(lambda: tables.queue(arguments)) == (
        f"PRECONDITION_FAILED - invalid arg {expected}"
    )


def test_wrong_type_of_a_dead_letter_exchange(tables: Tables) -> None:
    assert refusal(lambda: tables.queue({"x-dead-letter-exchange": SignedInt(5)})) == (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' "
        "in queue 'q' in vhost '/'"
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"x-queue-type": "stream"}, "x-queue-type"),
    ],
)
def test_arguments_not_honoured_yet_are_refused(
    tables: Tables, arguments: Table, name: str
) -> None:
    assert refusal(lambda: tables.queue(arguments)) == (
        f"PRECONDITION_FAILED - argument '{name}' for queue 'q' in vhost '/' "
        "is not supported yet by this version of Warren"
    )


@pytest.mark.rule("QQ-15")
@pytest.mark.parametrize(
    "arguments",
    [
        QUORUM | {"x-max-in-memory-length": 0, "x-max-in-memory-bytes": 100},
        QUORUM | {"x-quorum-initial-group-size": SignedInt(5)},
        *(QUORUM | {"x-queue-leader-locator": name} for name in LEADER_LOCATORS),
        {"x-queue-leader-locator": "client-local"},
        {"x-queue-mode": "lazy", "x-queue-version": 2},
        {"x-mine": [1, {"deep": None}]},
        {"x-queue-type": "undefined"},
    ],
)
def test_accepted_arguments(tables: Tables, arguments: Table) -> None:
    assert tables.queue(arguments) is not None


def test_delete_of_a_missing_queue_is_no_error(tables: Tables) -> None:
    assert tables.delete_queue("none") is None


def test_conditions_that_quorum_queues_do_not_have(tables: Tables) -> None:
    tables.queue(QUORUM)
    for if_unused, if_empty, flag in ((True, True, "unused"), (False, True, "empty")):
        text = refusal(
            lambda u=if_unused, e=if_empty: checks.delete_queue(  # type: ignore[misc]
                tables.machine, "/", "q", u, e, ME
            )
        )
        assert text == (
            "NOT_IMPLEMENTED - cannot delete queue 'q' in vhost '/'. queue.delete operations with "
            f"if-{flag} flag set are not supported by quorum queues"
        )
    assert str(checks.in_use(tables.found())).endswith("- queue 'q' in vhost '/' in use")
    assert str(checks.not_empty(tables.found())).endswith("- queue 'q' in vhost '/' not empty")


# --- exchanges ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ({"kind": "fanout"}, "'type' for {}: received 'fanout' but current is 'direct'"),
        ({"durable": False}, "'durable' for {}: received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for {}: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for {}: received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "foo"}},
            "'alternate-exchange' for {}: "
            "received the value 'foo' of type 'longstr' but current is none",
        ),
    ],
)
def test_inequivalent_exchange(tables: Tables, second: dict[str, object], text: str) -> None:
    tables.exchange()
    expected = text.format("exchange 'x' in vhost '/'")
    assert refusal(lambda: tables.exchange(**second)) == (  # type: ignore[arg-type]
        f"PRECONDITION_FAILED - inequivalent arg {expected}"
    )


def test_exchange_arguments_other_than_the_alternate_do_not_count(tables: Tables) -> None:
    tables.exchange(arguments={"mine": 1})
    assert tables.exchange(arguments={"mine": 2}) is None


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("", "weird", "PRECONDITION_FAILED - unknown exchange type 'weird'"),
        ("", "direct", "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (
            "amq.foo",
            "direct",
            "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'",
        ),
        (
            "amq.direct",
            "fanout",
            "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' "
            "in vhost '/': received 'fanout' but current is 'direct'",
        ),
        (
            "amq.rabbitmq.trace",
            "topic",
            "PRECONDITION_FAILED - inequivalent arg 'internal' for exchange "
            "'amq.rabbitmq.trace' in vhost '/': received 'false' but current is 'true'",
        ),
    ],
)
def test_refused_exchanges(tables: Tables, name: str, kind: str, text: str) -> None:
    assert refusal(lambda: tables.exchange(name, kind)) == text


def test_predeclared_exchanges_exist(tables: Tables) -> None:
    for name, kind in (
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ):
        assert tables.exchange(name, kind) is None
    assert tables.exchange("amq.rabbitmq.trace", "topic", internal=True) is None


def test_alternate_exchange_of_the_wrong_type(tables: Tables) -> None:
    assert refusal(lambda: tables.exchange(arguments={"alternate-exchange": SignedInt(5)})) == (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' "
        "in exchange 'x' in vhost '/'"
    )


def test_deleting_exchanges(tables: Tables) -> None:
    def delete(name: str, if_unused: bool = False) -> Outcome | None:
        return tables.apply(checks.delete_exchange(tables.machine, "/", name, if_unused))

    assert refusal(lambda: delete("")) == (
        "ACCESS_REFUSED - operation not permitted on the default exchange"
    )
    assert refusal(lambda: delete("amq.nope")) == (
        "ACCESS_REFUSED - deletion of system exchange 'amq.nope' in vhost '/' not allowed"
    )
    assert delete("none") is None
    tables.exchange()
    tables.queue()
    tables.bind("x", "q")
    assert refusal(lambda: delete("x", True)) == (
        "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"
    )
    assert delete("x") is not None
    assert tables.exchanges() == {""}
    assert not tables.found().incoming


def test_passive_exchange_declare(tables: Tables) -> None:
    machine = tables.machine
    assert checks.use_exchange(machine, "/", "amq.topic").kind == "topic"
    assert refusal(lambda: checks.use_exchange(machine, "/", "none")) == (
        "NOT_FOUND - no exchange 'none' in vhost '/'"
    )
    assert refusal(lambda: checks.use_exchange(machine, "/", "")) == (
        "ACCESS_REFUSED - operation not permitted on the default exchange"
    )


# --- bindings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "destination", "to_exchange", "text"),
    [
        ("nx", "nq", False, "NOT_FOUND - no exchange 'nx' in vhost '/'"),
        ("amq.direct", "nq", False, "NOT_FOUND - no queue 'nq' in vhost '/'"),
        ("amq.direct", "nx", True, "NOT_FOUND - no exchange 'nx' in vhost '/'"),
        ("", "nq", False, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (
            "amq.direct",
            "",
            True,
            "ACCESS_REFUSED - operation not permitted on the default exchange",
        ),
        (
            "",
            "amq.direct",
            True,
            "ACCESS_REFUSED - operation not permitted on the default exchange",
        ),
    ],
)
def test_refused_binds(
    tables: Tables, source: str, destination: str, to_exchange: bool, text: str
) -> None:
    assert refusal(lambda: tables.bind(source, destination, to_exchange=to_exchange)) == text


def test_unbind_of_what_is_not_there_is_no_error(tables: Tables) -> None:
    assert tables.unbind("nx", "nq") is None
    assert tables.unbind("amq.direct", "nq") is None
    assert refusal(lambda: tables.unbind("", "q", "q")) == (
        "ACCESS_REFUSED - operation not permitted on the default exchange"
    )


@pytest.mark.parametrize(
    ("match", "text"),
    [
        ("foo", 'value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        ("é", 'value <<"é"/utf8>>; expected all, any, all-with-x, or any-with-x'),
        (SignedInt(5), "type signedint (value 5); expected longstr"),
        (True, "type bool (value true); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
        (["all"], 'type array (value [{longstr,<<"all">>}]); expected longstr'),
        (b"\xff", 'type binary (value <<"\xff">>); expected longstr'),
    ],
)
def test_wrong_header_match(tables: Tables, match: object, text: str) -> None:
    tables.queue()
    arguments: Table = {"x-match": match}  # type: ignore[dict-item]
    assert refusal(lambda: tables.bind("amq.headers", "q", "", arguments)) == (
        f"PRECONDITION_FAILED - Invalid x-match field {text}"
    )
    assert tables.bind("amq.direct", "q", "", arguments) is not None


def test_wildcards_in_a_topic_pattern(tables: Tables) -> None:
    tables.queue()
    assert refusal(lambda: tables.bind("amq.topic", "q", "#.a.#.b.#")) == (
        "PRECONDITION_FAILED - Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, "
        "at most 2 are allowed"
    )
    assert tables.bind("amq.topic", "q", "#.a.#") is not None


def test_binding_twice_is_one_binding(tables: Tables) -> None:
    tables.queue()
    assert tables.bind("amq.direct", "q", "k", {"a": 1, "b": 2}) is not None
    assert tables.bind("amq.direct", "q", "k", {"b": 2, "a": 1}) is None
    assert tables.bind("amq.direct", "q", "k", {"a": SignedInt(1), "b": 2}) is not None
    assert tables.bind("amq.direct", "q", "k") is not None
    router = tables.machine.vhosts["/"].router
    assert router.route("amq.direct", "k") == ["q"]
    assert tables.unbind("amq.direct", "q", "k", {"b": 2, "a": 1}) is not None
    assert tables.unbind("amq.direct", "q", "k", {"a": SignedInt(1), "b": 2}) is not None
    assert router.route("amq.direct", "k") == ["q"]
    assert tables.unbind("amq.direct", "q", "k") is not None
    assert router.route("amq.direct", "k") == []


@pytest.mark.rule("PROP-09")
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_any_queue_type_binds_to_any_exchange(tables: Tables, kind: str) -> None:
    tables.queue({}, name="classic")
    tables.queue(QUORUM, name="quorum")
    tables.exchange("x", kind)
    tables.bind("x", "classic", "k")
    tables.bind("x", "quorum", "k")
    assert tables.machine.vhosts["/"].router.route("x", "k") == ["classic", "quorum"]


# --- deletions that follow ----------------------------------------------------------------------


def test_auto_delete_exchanges_go_with_their_last_binding(tables: Tables) -> None:
    tables.queue()
    tables.exchange("y", "fanout", auto_delete=True)
    tables.exchange("z", "fanout", auto_delete=True)
    tables.bind("y", "z", to_exchange=True)
    tables.bind("z", "q")
    tables.bind("z", "q", "second")
    tables.unbind("z", "q", "second")
    assert tables.exchanges() == {"", "y", "z"}
    outcome = tables.unbind("z", "q")
    assert outcome is not None
    assert [row.name for row in outcome.deleted_exchanges] == ["z", "y"]
    assert tables.exchanges() == {""}


def test_auto_delete_exchange_without_bindings_stays(tables: Tables) -> None:
    tables.exchange("y", auto_delete=True)
    tables.queue()
    tables.unbind("y", "q")
    assert "y" in tables.exchanges()


def test_exchange_bound_to_itself_keeps_itself(tables: Tables) -> None:
    tables.queue()
    tables.exchange("s", "fanout", auto_delete=True)
    tables.bind("s", "s", to_exchange=True)
    tables.bind("s", "q")
    tables.delete_queue()
    assert "s" in tables.exchanges()
    tables.apply(checks.delete_exchange(tables.machine, "/", "s", False))
    assert tables.exchanges() == {""}


def test_deleting_a_queue_removes_its_bindings(tables: Tables) -> None:
    tables.queue()
    tables.exchange("y", auto_delete=True)
    tables.bind("y", "q", "k")
    tables.bind("amq.direct", "q", "k")
    outcome = tables.delete_queue()
    assert outcome is not None
    assert [row.name for row in outcome.deleted_exchanges] == ["y"]
    tables.queue()
    assert tables.machine.vhosts["/"].router.route("amq.direct", "k") == []


@pytest.mark.rule("DUR-12")
def test_queues_of_a_connection(tables: Tables) -> None:
    tables.queue(name="a", exclusive=True)
    tables.queue(name="b", exclusive=True)
    tables.queue(name="c", exclusive=True, connection=OTHER)
    tables.queue(name="d")
    owned = tables.machine.queues_of_owner("/", ME)
    assert [queue.name for queue in owned] == ["a", "b"]
    tables.delete_queue("a")
    tables.delete_queue("b")
    assert tables.machine.queues_of_owner("/", ME).keys() == []


def test_delete_of_an_older_incarnation_leaves_the_newer_one(tables: Tables) -> None:
    tables.queue()
    stale = checks.delete_queue(tables.machine, "/", "q", False, False, ME)
    tables.delete_queue()
    tables.queue()
    outcome = tables.apply(stale)
    assert outcome is not None
    assert not outcome.changed
    assert tables.found().group_id == 2
