"""What refusals are in AMQP 0-9-1: code, text, and what they end."""

from __future__ import annotations

import pytest

from warren import errors
from warren.errors import Refusal
from warren.protocols.amqp091.refusals import CHANNEL_CODES, CONNECTION_CODES, amqp_error
from warren.wire.amqp091.errors import REPLY_NAMES, ChannelException, ConnectionException

KINDS = [value for name, value in vars(errors).items() if name.isupper()]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_one_code(kind: str) -> None:
    assert (kind in CHANNEL_CODES) != (kind in CONNECTION_CODES)
    error = amqp_error(Refusal(kind, "no more"), 50, 10)
    assert type(error) is (ChannelException if kind in CHANNEL_CODES else ConnectionException)
    assert str(error) == f"{REPLY_NAMES[error.code]} - no more"
    assert (error.class_id, error.method_id) == (50, 10)


def test_codes_are_those_of_rabbitmq() -> None:
    codes = {kind: amqp_error(Refusal(kind, ""), 0, 0).code for kind in KINDS}
    assert codes == {
        "ACCESS_REFUSED": 403,
        "NOT_FOUND": 404,
        "RESOURCE_LOCKED": 405,
        "PRECONDITION_FAILED": 406,
        "EXHAUSTED": 506,
        "NOT_ALLOWED": 530,
        "NOT_IMPLEMENTED": 540,
        "TIMED_OUT": 541,
        "NO_MAJORITY": 541,
    }
