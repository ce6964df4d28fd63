"""Where Warren answers otherwise than RabbitMQ 4.3 on purpose, each with its reason.

An entry replaces what the oracle said on some places (`connection/channel`) of one scenario. A dict
in it matches an event that has at least those values; anything else has to be equal.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Deviation(NamedTuple):
    """Why, and what is said instead, by place."""

    reason: str
    instead: dict[str, list[Any]]


_CLOSED = "socket closed"


def _connection_close(code: int, text: str | None = None) -> list[Any]:
    close: dict[str, Any] = {"method": "connection.close", "reply_code": code}
    if text is not None:
        close["reply_text"] = text
    return [close, _CLOSED]


_DECLARED = {"method": "queue.declare-ok"}
_NO_EXPIRATION = {
    "method": "channel.close",
    "reply_code": 406,
    "reply_text": "PRECONDITION_FAILED - property 'expiration' is not supported yet by this"
    " version of Warren",
}


def _same_methods(count: int) -> list[Any]:
    """The oracle's first events, with only their methods compared."""
    return [{"method": "<oracle>"} for _ in range(count)]


DEVIATIONS: dict[str, Deviation] = {
    "publish_with_expiration": Deviation(
        "messages with a time to live are refused until they are honoured",
        {"a/1": [_DECLARED, {"method": "basic.consume-ok"}, _NO_EXPIRATION]},
    ),
    "reply_text_too_long": Deviation(
        "the oracle cuts within a character and fails on that; ours cuts between characters",
        {"a/0": [], "a/1": [{"method": "channel.close", "reply_code": 404}] * 4},
    ),
    "frame_end_wrong": Deviation(
        "the oracle prints the whole frame as an Erlang term; the code is what clients act on",
        {"a/0": _connection_close(501)},
    ),
    "frame_type_unknown": Deviation(
        "the oracle prints the frame as an Erlang term",
        {"a/0": _connection_close(501)},
    ),
    "method_cut_short": Deviation(
        "the oracle prints the rest of the payload as an Erlang term",
        {"a/0": _connection_close(501)},
    ),
    "frame_too_large": Deviation(
        "the oracle drops the socket without a word; a close says what was wrong",
        {"a/0": _connection_close(501), "a/1": []},
    ),
    "nack_requeue": Deviation(
        "every return counts as a delivery attempt, as the guide of 4.0 says",
        {"a/1": _same_methods(14)},
    ),
    "recover": Deviation(
        "every return counts as a delivery attempt, as the guide of 4.0 says",
        {"a/1": _same_methods(10)},
    ),
    "delivery_limit": Deviation(
        "every return counts towards the limit, as the guide of 4.0 says",
        {"a/2": [*_same_methods(22), "no answer", "quiet"]},
    ),
    "every_property_and_type": Deviation(
        "priorities 0 to 4 are one level, as the guide of 4.0 says; RabbitMQ 4.3 has 32",
        {"a/1": _same_methods(6)},
    ),
    "unknown_method": Deviation(
        "the oracle's connection process crashes; the protocol has a code for it",
        {"a/0": _connection_close(503), "a/1": []},
    ),
    "unknown_class": Deviation(
        "the oracle's connection process crashes; the protocol has a code for it",
        {"a/0": _connection_close(503), "a/1": []},
    ),
    "tune_frame_max_too_small": Deviation(
        "the oracle logs the reason and drops the socket; ours is also told to the client",
        {
            "a/0": _connection_close(
                530,
                "NOT_ALLOWED - negotiated frame_max = 100 is lower than the minimum allowed value"
                " (8192)",
            )
        },
    ),
    "tune_frame_max_too_large": Deviation(
        "the oracle logs the reason and drops the socket; ours is also told to the client",
        {"a/0": _connection_close(530)},
    ),
    "tune_channel_max_too_large": Deviation(
        "the oracle logs the reason and drops the socket; ours is also told to the client",
        {"a/0": _connection_close(530)},
    ),
    "handshake_start": Deviation(
        "no anonymous login is offered; everything else is the same",
        {
            "a/0": [
                {"server_properties": "<oracle>", "capabilities": "<oracle>"},
                {
                    "version_major": "0",
                    "version_minor": "9",
                    "mechanisms": "b'PLAIN AMQPLAIN'",
                    "locales": "b'en_US'",
                },
            ]
        },
    ),
}


def expected(name: str, oracle: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return what Warren should say in a scenario, from what the oracle said."""
    if name not in DEVIATIONS:
        return oracle
    wanted = {**oracle, **DEVIATIONS[name].instead}
    for place, events in wanted.items():
        for index, event in enumerate(events):
            if isinstance(event, dict) and "<oracle>" in event.values():
                events[index] = {
                    key: oracle[place][index][key] if value == "<oracle>" else value
                    for key, value in event.items()
                }
    return {place: events for place, events in wanted.items() if events}


def settle(
    wanted: dict[str, list[Any]], got: dict[str, list[Any]], name: str
) -> dict[str, list[Any]]:
    """Return `got` with each event that a deviation's partial event matches replaced by that."""
    if name not in DEVIATIONS:
        return got
    settled = {place: list(events) for place, events in got.items()}
    for place in DEVIATIONS[name].instead:
        for index, event in enumerate(wanted.get(place, [])[: len(settled.get(place, []))]):
            said = settled[place][index]
            if isinstance(event, dict) and isinstance(said, dict) and said.items() >= event.items():
                settled[place][index] = event
    return settled
