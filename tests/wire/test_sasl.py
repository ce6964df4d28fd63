"""SASL PLAIN and AMQPLAIN: name and password in both directions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.wire.amqp091.errors import ConnectionException
from warren.wire.sasl import decode_amqplain, decode_plain, encode_amqplain, encode_plain

texts = st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))


@given(texts, texts)
def test_round_trip(user: str, password: str) -> None:
    assert decode_amqplain(encode_amqplain(user, password)) == (user, password)
    if "\x00" not in user + password:
        assert decode_plain(encode_plain(user, password)) == (user, password)


def test_bytes() -> None:
    assert encode_plain("guest", "pässword") == b"\x00guest\x00p\xc3\xa4ssword"
    assert decode_plain(b"\x00\x00") == ("", "")
    login = b"\x05LOGINS\x00\x00\x00\x05guest"
    assert encode_amqplain("guest", "") == login + b"\x08PASSWORDS\x00\x00\x00\x00"
    assert decode_amqplain(b"\x08PASSWORDx\x00\x00\x00\x01p" + login) == ("guest", "p")


@pytest.mark.parametrize(
    "response",
    [b"", b"guest\x00guest", b"\x00guest", b"\x00guest\x00guest\x00", b"admin\x00guest\x00guest"],
)
def test_plain_refusals(response: bytes) -> None:
    with pytest.raises(ConnectionException) as caught:
        decode_plain(response)
    assert caught.value.code == 502


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x05LOGINS\x00\x00\x00\x05guest",
        b"\x08PASSWORDS\x00\x00\x00\x05guest",
        b"\x05LOGINt\x01\x08PASSWORDS\x00\x00\x00\x01p",
        b"\x05LOGINV\x08PASSWORDV",
        b"\x05LOGIN?",
        b"\xff",
    ],
)
def test_amqplain_refusals(response: bytes) -> None:
    with pytest.raises(ConnectionException) as caught:
        decode_amqplain(response)
    assert caught.value.code == 502


@given(st.binary(max_size=80))
def test_arbitrary_responses_end_in_a_login_or_a_502(response: bytes) -> None:
    for decode in (decode_plain, decode_amqplain):
        try:
            user, password = decode(response)
        except ConnectionException as error:
            assert error.code == 502
        else:
            assert isinstance(user, str)
            assert isinstance(password, str)
