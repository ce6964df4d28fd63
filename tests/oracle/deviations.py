"""Where Warren answers otherwise than RabbitMQ 4.3 on purpose, each with its reason.

A deviation is a list of edits of what the oracle said in one scenario. Each edit names the smallest
thing that differs, and what Warren says there is compared as strictly as everything else. An edit
without which the transcripts agree as well is out of date, and fails its test.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, TypeAlias

from tests.oracle.recorded import Transcript

_CLOSED = "socket closed"


class Field(NamedTuple):
    """One value of one event is another.

    Attributes:
        place: Connection and channel, as in `a/1`.
        event: Index of the event among those of its place.
        path: Keys that lead to the value.
        value: What Warren says there.
    """

    place: str
    event: int
    path: tuple[str, ...]
    value: Any


class Answer(NamedTuple):
    """One event is another, but for which value it is about."""

    place: str
    event: int
    answer: dict[str, Any]


class Rest(NamedTuple):
    """From one event of a place on, all is said otherwise; `events` holds what is said instead."""

    place: str
    event: int
    events: list[Any]


Edit: TypeAlias = Field | Answer | Rest


class Deviation(NamedTuple):
    """Why Warren answers otherwise in a scenario, and where."""

    reason: str
    edits: list[Edit]


def _close(code: int, text: str, class_id: int = 0, method_id: int = 0) -> dict[str, Any]:
    """The `connection.close` that a client is sent."""
    return {
        "method": "connection.close",
        "reply_code": code,
        "reply_text": text,
        "class_id": class_id,
        "method_id": method_id,
    }


def _channel_close(code: int, text: str, class_id: int, method_id: int) -> dict[str, Any]:
    """The `channel.close` that a client is sent."""
    return {**_close(code, text, class_id, method_id), "method": "channel.close"}


def _told_why(text: str) -> Deviation:
    """A tune-ok that is refused with a close, where the oracle drops the socket."""
    return Deviation(
        "the oracle logs the reason and drops the socket; ours is also told to the client",
        [Rest("a/0", 0, [_close(530, f"NOT_ALLOWED - {text}"), _CLOSED])],
    )


def _unknown(class_id: int, method_id: int) -> Deviation:
    """A method that nobody knows."""
    close = _close(503, "COMMAND_INVALID - unimplemented method", class_id, method_id)
    return Deviation(
        "the oracle's connection process crashes; the protocol has a code for it",
        [Rest("a/0", 0, [close, _CLOSED]), Rest("a/1", 0, [])],
    )


_LATE = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 2 timed out. Timeout value used: "
    "700 ms. This timeout value can be configured, see consumers doc guide to learn more"
)


def _timeout_said(place: str, event: int) -> Deviation:
    """RabbitMQ 4.3 says -1 for every timeout."""
    return Deviation("the timeout is told", [Field(place, event, ("reply_text",), _LATE)])


_DECLARED = {"method": "queue.declare-ok", "message_count": 0, "consumer_count": 0}
_DROPPED_AT_COMMIT: list[Any] = [
    {"method": "tx.commit-ok"},
    "quiet",
    {**_DECLARED, "queue": "o.classic"},
    {**_DECLARED, "queue": "o.quorum"},
    {"method": "tx.select-ok"},
    {"method": "queue.delete-ok", "message_count": 0},
    {"method": "tx.commit-ok"},
    "quiet",
    {**_DECLARED, "queue": "o.quorum"},
]


def _target_size_checked() -> Deviation:
    """Every value of `x-quorum-target-group-size` that is no number from 1."""
    wrong = {
        0: '"expected integer, got void"', 1: '"expected integer, got bool"',
        2: "{value_negative,-1}", 3: "{value_zero,0}", 8: '"expected integer, got timestamp"',
        9: '"expected integer, got double"', 10: '"expected integer, got decimal"',
        11: '"expected integer, got longstr"', 12: '"expected integer, got longstr"',
        13: '"expected integer, got binary"', 14: '"expected integer, got array"',
        15: '"expected integer, got table"',
    }  # fmt: skip
    start = "PRECONDITION_FAILED - invalid arg 'x-quorum-target-group-size' for queue 'o.q' in"
    return Deviation(
        "the oracle ignores what is no number there; ours checks what it honours (CMR-11)",
        [
            Answer("a/1", event, _channel_close(406, f"{start} vhost '/': {reason}", 50, 10))
            for event, reason in wrong.items()
        ],
    )


def _crash(code: int, text: str, class_id: int = 0, method_id: int = 0) -> Deviation:
    """A frame that cannot be read."""
    return Deviation(
        "the oracle's connection process crashes; the protocol has a code for it",
        [Answer("a/0", 0, _close(code, text, class_id, method_id))],
    )


def _timestamps_match(*cases: str) -> Deviation:
    """Which headers match a number or a timestamp."""
    return Deviation(
        "to the oracle a message's timestamps are milliseconds and a binding's are seconds, so that"
        " none matches the other; ours are seconds on both sides",
        [Field("a/0", 0, ("matched",), list(cases))],
    )


_QOS_OK = {"method": "basic.qos-ok"}
_CLOSE_OK = {"method": "channel.close-ok"}
_UNASKED = Deviation(
    "an answer that was not asked for means nothing to ours; clients answer a cancel of the server,"
    " and closes cross",
    [Rest("a/0", 0, []), Rest("a/1", 0, [_QOS_OK, _QOS_OK])],
)
_NOT_OPEN = "CHANNEL_ERROR - expected 'channel.open'"


def _not_open(method_id: int) -> Deviation:
    """A method of class basic on a channel that is not open."""
    return Deviation(
        "the oracle does what is asked on a channel that is not open; ours refuses it as any other",
        [
            Rest(f"{who}/0", 0, [_close(504, _NOT_OPEN, 60, method_id), _CLOSED])
            for who in ("a", "b")
        ]
        + ([Rest("a/9", 0, []), Rest("b/1", 1, [])] if method_id == 70 else []),
    )


_ONES = ("a=1", "a=1 as long", "a=1 as byte", "a=1 as time")
_AND_ONE = ("a=1 b=2", "a=1 b=3", "a=1 x-h=1")
_LONG = "n" * 227 + "..."


def _polled(tag: int, body: str, left: int, failed: int) -> dict[str, Any]:
    """A message of `o.q` that a client asked for, which failed so often."""
    counts = {"x-acquired-count": ["l", failed], "x-delivery-count": ["l", failed]}
    headers: dict[str, Any] = {"headers": counts} if failed else {}
    return {
        "method": "basic.get-ok",
        "delivery_tag": tag,
        "redelivered": failed > 0,
        "exchange": "",
        "routing_key": "o.q",
        "message_count": left,
        "body": body,
        "properties": {**headers, "delivery_mode": 2},
    }


_FLAGS_DO_NOT_MATCH = "FRAME_ERROR - content properties do not match their flags"
_LOG_EXCHANGE = "exchange 'amq.rabbitmq.log' in vhost '/'"

DEVIATIONS: dict[str, Deviation] = {
    **{
        f"expiration_kept[{text}]": Deviation(
            "a message's properties come back as they were sent, digit by digit",
            [Field("a/1", event, ("properties", "expiration"), text) for event in (1, 3)],
        )
        for text in ("+1000000", "00100000")
    },
    "quorum_limit_with_deliveries": Deviation(
        "who gets messages on one channel is one consumer; the oracle has one for each message",
        [Field("a/1", 3, ("consumer_count",), 1)],
    ),
    "quorum_limit_between": Deviation(
        "a queue that was full is so to all publishers until four fifths are left; the oracle lets"
        " those in meanwhile that began later",
        [
            Field("a/1", 11, ("message_count",), 4),
            Field("a/1", 12, ("message_count",), 3),
            Field("b/1", 1, ("confirmed", "1"), "basic.nack"),
        ],
    ),
    "queue_locators": Deviation(
        "the oracle permits the old name by configuration only; ours is always an alias (D-15)",
        [Rest("a/0", 0, []), Rest("a/1", 7, [{**_DECLARED, "queue": "o.old"}])],
    ),
    "reply_text_too_long": Deviation(
        "the oracle cuts within a character and fails on that; ours cuts between characters",
        [
            Rest("a/0", 0, []),
            Rest(
                "a/1",
                1,
                [
                    _channel_close(404, "NOT_FOUND - no queue '" + "é" * 116, 50, 10),
                    _channel_close(404, "NOT_FOUND - no queue 'a" + "é" * 116, 50, 10),
                    _channel_close(404, f"NOT_FOUND - no exchange '{_LONG}", 40, 10),
                ],
            ),
        ],
    ),
    "tx_queue_gone": Deviation(
        "the oracle ends the connection; ours drops such messages, as without a transaction",
        [Rest("a/0", 0, []), Rest("a/1", 3, _DROPPED_AT_COMMIT)],
    ),
    "timeout_closes_a_channel": _timeout_said("old/2", 3),
    "timeout_of_a_get": _timeout_said("a/2", 1),
    "timeout_after_a_cancel": _timeout_said("a/2", 3),
    "timeout_of_a_tag_used_again": Deviation(
        "a consumer that was cancelled stays cancelled, so that its channel is closed as with any"
        " other tag; the oracle goes on with the consumer of before, and with its timeout, whatever"
        " the new one says",
        [Rest("a/2", 4, [_channel_close(406, _LATE, 0, 0)])],
    ),
    "headers[a=1]": _timestamps_match(*_ONES, *_AND_ONE),
    "headers[a=1 as long]": _timestamps_match(*_ONES, *_AND_ONE),
    "headers[a=1 as time]": _timestamps_match(*_ONES, *_AND_ONE),
    "headers[a=1000]": _timestamps_match("a=1000", "a=1000 as time"),
    "headers[a=1000 as time]": _timestamps_match("a=1000", "a=1000 as time"),
    "headers[any a=1 b=2]": _timestamps_match(*_ONES, "b=2", *_AND_ONE),
    "headers[all a=1 x-h=1]": _timestamps_match(*_ONES, *_AND_ONE),
    "exchange_name[system, missing]": Deviation(
        "there is no exchange for logs: nothing would be published to it",
        [
            Rest(
                "a/1",
                1,
                [
                    _channel_close(404, f"NOT_FOUND - no {_LOG_EXCHANGE}", 40, 10),
                    _channel_close(
                        403,
                        "ACCESS_REFUSED - exchange name 'amq.rabbitmq.log' contains reserved prefix"
                        " 'amq.*'",
                        40,
                        10,
                    ),
                    _channel_close(404, f"NOT_FOUND - no {_LOG_EXCHANGE}", 50, 20),
                    _channel_close(404, f"NOT_FOUND - no {_LOG_EXCHANGE}", 60, 40),
                    {"method": "queue.unbind-ok"},
                    _channel_close(
                        403,
                        f"ACCESS_REFUSED - deletion of system {_LOG_EXCHANGE} not allowed",
                        40,
                        20,
                    ),
                ],
            )
        ],
    ),
    **{
        f"header_not_finite[{case}]": Deviation(
            "the oracle cannot read such a number; ours keeps what it need not understand",
            [Rest("a/0", 0, []), Rest("a/1", 1, [{"method": "basic.qos-ok"}])],
        )
        for case in ("infinite", "negative", "none")
    },
    "content_header_malformed[flags at their end]": _crash(
        501, "FRAME_ERROR - malformed content header", 60, 40
    ),
    "content_header_malformed[too short]": _crash(501, _FLAGS_DO_NOT_MATCH),
    "content_header_malformed[too long]": _crash(501, _FLAGS_DO_NOT_MATCH),
    "content_header_malformed[flags that go on]": Deviation(
        "the oracle passes over the promise of further flags, which consumers would trust",
        [Rest("a/0", 0, [_close(501, _FLAGS_DO_NOT_MATCH), _CLOSED]), Rest("a/1", 1, [])],
    ),
    **{
        f"header_table_malformed[{letter}]": _crash(502, f"SYNTAX_ERROR - {text}")
        for letter, text in (
            ("V", "field table ends inside a name"),
            ("S", "field table ends inside a value"),
            ("F", "field table ends inside a value"),
            ("A", "field table ends inside a value"),
            ("D", "field table ends inside a value"),
            ("z", "unknown field value type 122"),
            ("Q", "unknown field value type 81"),
            ("\x00", "unknown field value type 0"),
        )
    },
    "expiration_invalid[99999999999999999999]": Deviation(
        "the oracle breaks a line of its text that gets long",
        [
            Field(
                "a/1",
                1,
                ("reply_text",),
                "PRECONDITION_FAILED - invalid expiration '99999999999999999999':"
                " {value_too_large,99999999999999999999}",
            )
        ],
    ),
    "publish_refused[wrong user and CC]": Deviation(
        "of two faults ours tells the one that is found without reading the headers",
        [
            Field(
                place,
                1,
                ("reply_text",),
                "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was"
                " 'guest'",
            )
            for place in ("a/1", "a/2")
        ],
    ),
    "qos_global_shared": Deviation(
        "the oracle has limits over a channel switched off unless configured; ours shares them"
        " between consumers of classic queues, as the guides say (D-22)",
        [
            Rest(
                "a/2",
                5,
                [
                    "quiet",
                    {
                        "method": "basic.get-ok",
                        "delivery_tag": 3,
                        "redelivered": False,
                        "exchange": "",
                        "routing_key": "o.second",
                        "message_count": 1,
                        "body": "a",
                        "properties": {"delivery_mode": 2},
                    },
                    {
                        "method": "basic.deliver",
                        "consumer_tag": "first",
                        "delivery_tag": 4,
                        "redelivered": False,
                        "exchange": "",
                        "routing_key": "o.first",
                        "body": "3",
                        "properties": {"delivery_mode": 2},
                    },
                    "quiet",
                    {"method": "basic.qos-ok"},
                ],
            )
        ],
    ),
    "method_of_the_server[channel.flow-ok]": _UNASKED,
    "method_of_the_server[channel.close-ok]": _UNASKED,
    "method_of_the_server[basic.cancel-ok]": _UNASKED,
    "method_of_the_connection[connection.close-ok]": Deviation(
        _UNASKED.reason, [Rest("a/0", 0, []), Rest("a/1", 0, [_QOS_OK])]
    ),
    "method_on_a_channel_not_open[channel.close]": Deviation(
        "a close that crosses another is answered, of whatever channel",
        [
            Rest("a/0", 0, []),
            Rest("b/0", 0, []),
            Rest("a/9", 0, [_CLOSE_OK]),
            Rest("b/1", 1, [_CLOSE_OK]),
        ],
    ),
    "method_on_a_channel_not_open[channel.close-ok]": Deviation(
        _UNASKED.reason, [Rest("a/0", 0, ["quiet"]), Rest("b/0", 0, ["quiet"])]
    ),
    "method_on_a_channel_not_open[basic.get]": _not_open(70),
    "method_on_a_channel_not_open[basic.publish]": _not_open(40),
    "channel_number_again[close-ok]": Deviation(_UNASKED.reason, [Rest("a/0", 0, ["quiet"])]),
    "method_too_early[connection.close]": Deviation(
        "a client may leave at any time, and is told that it has",
        [Rest(f"{who}/0", 0, [{"method": "connection.close-ok"}]) for who in ("a", "b")],
    ),
    "quorum_argument[x-quorum-target-group-size]": _target_size_checked(),
    "unknown_method": _unknown(50, 999),
    "unknown_class": _unknown(999, 10),
    "tune_frame_max_too_small": _told_why(
        "negotiated frame_max = 100 is lower than the minimum allowed value (8192)"
    ),
    "tune_frame_max_too_large": _told_why(
        "negotiated frame_max = 1048576 is higher than the maximum allowed value (131072)"
    ),
    "tune_frame_max_zero": _told_why(
        "negotiated frame_max = 0 is higher than the maximum allowed value (131072)"
    ),
    "tune_channel_max_zero": _told_why(
        "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"
    ),
    "tune_channel_max_too_large": _told_why(
        "negotiated channel_max = 60000 is higher than the maximum allowed value (2047)"
    ),
    "recent_to_exchange[direct that takes none]": Deviation(
        "the oracle's channel fails where an exchange passes none of the messages on",
        [
            Rest("a/0", 0, []),
            Rest(
                "a/1",
                11,
                [
                    {"method": "exchange.bind-ok"},
                    {"method": "basic.get-empty", "cluster_id": ""},
                ],
            ),
        ],
    ),
    "traced_publish[default exchange, no queue]": Deviation(
        "the firehose names the queues that got a message; the oracle names that of the routing key"
        " of the default exchange, whether it is there or not",
        [Field("a/1", 9, ("properties", "headers", "routed_queues"), ["A", []])],
    ),
    "traced_publish[large timestamp]": Deviation(
        "a timestamp is told of as it is; the oracle has its last 32 bits",
        [
            Field(
                "a/1",
                9,
                ("properties", "headers", "properties"),
                ["F", {"timestamp": ["l", 2**31 + 5]}],
            )
        ],
    ),
    "handshake_start": Deviation(
        "no anonymous login is offered",
        [Field("a/0", 1, ("mechanisms",), "b'AMQPLAIN PLAIN'")],
    ),
}


def edits_of(name: str) -> list[Edit]:
    """How Warren's answers in a scenario differ from the oracle's."""
    return DEVIATIONS[name].edits if name in DEVIATIONS else []


def edited(oracle: Transcript, edits: list[Edit]) -> Transcript:
    """What Warren should say, from what the oracle said."""
    wanted = copy.deepcopy(oracle)
    for edit in edits:
        events = wanted.setdefault(edit.place, [])
        if isinstance(edit, Rest):
            events[edit.event :] = edit.events
        elif isinstance(edit, Answer):
            given = events[edit.event].get("given")
            events[edit.event] = {**edit.answer, **({"given": given} if given else {})}
        else:
            inner = events[edit.event]
            for key in edit.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[edit.path[-1]] = edit.value
    return {place: events for place, events in wanted.items() if events}
