"""Methods: every one round trips, and a malformed one ends as in RabbitMQ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import argument_names, methods, same
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.spec import decode_method


@given(methods())
def test_round_trip(method: spec.Method) -> None:
    data = method.encode()
    for shift in (0, 3):
        shifted = b"\xaa" * shift + data + b"\xaa" * shift
        again = decode_method(shifted, shift, shift + len(data))
        assert type(again) is type(method)
        for name in argument_names(type(method)):
            assert same(getattr(again, name), getattr(method, name)), name
        assert again.encode() == data


@pytest.mark.parametrize("kind", spec.METHODS, ids=lambda kind: kind.NAME)
def test_defaults_and_every_cut(kind: type[spec.Method]) -> None:
    """A method without its last bytes, or with one more, is a 501 that names the method."""
    data = kind().encode()
    assert type(decode_method(data, 0, len(data))) is kind
    assert data[:4] == kind.CLASS_ID.to_bytes(2, "big") + kind.METHOD_ID.to_bytes(2, "big")
    for broken in [data[:size] for size in range(4, len(data))] + [data + b"\x00"]:
        with pytest.raises(ConnectionException) as caught:
            decode_method(broken, 0, len(broken))
        error = caught.value
        numbers = ",".join(str(octet) for octet in broken[4:])
        assert (error.code, error.text) == (501, f"cannot decode <<{numbers}>>")
        assert (error.class_id, error.method_id) == (kind.CLASS_ID, kind.METHOD_ID)


@given(st.binary(max_size=100), st.sampled_from(spec.METHODS), st.booleans())
def test_arbitrary_arguments_end_in_a_method_or_a_declared_error(
    noise: bytes, kind: type[spec.Method], keep_ids: bool
) -> None:
    data = kind().encode()[:4] + noise if keep_ids else noise
    try:
        method = decode_method(data, 0, len(data))
    except ConnectionException as error:
        assert error.code in {501, 502, 503}
    else:
        again = method.encode()
        assert same(type(decode_method(again, 0, len(again))), type(method))


def test_no_such_method() -> None:
    for data, ids in ((b"\x00\x63\x00\x01", (99, 1)), (b"\x00\x3c\x00\x63", (60, 99))):
        with pytest.raises(ConnectionException) as caught:
            decode_method(data, 0, 4)
        error = caught.value
        assert str(error) == "COMMAND_INVALID - unimplemented method"
        assert (error.code, error.class_id, error.method_id) == (503, *ids)


def test_short_string_that_is_not_utf8() -> None:
    """Refused where RabbitMQ refuses it, kept byte for byte where a method carries content."""
    declare = b"\x00\x32\x00\x0a\x00\x00\x02\xff\xfe\x00\x00\x00\x00\x00"
    with pytest.raises(ConnectionException) as caught:
        decode_method(declare, 0, len(declare))
    assert caught.value.code == 501
    assert caught.value.text == "Malformed UTF-8 in shortstr"
    assert (caught.value.class_id, caught.value.method_id) == (0, 0)
    publish = b"\x00\x3c\x00\x28\x00\x00\x02\xff\xfe\x01\xff\x00"
    method = decode_method(publish, 0, len(publish))
    assert isinstance(method, spec.BasicPublish)
    assert method.exchange == "\udcff\udcfe"
    assert method.encode() == publish


def test_malformed_table_names_the_method() -> None:
    declare = b"\x00\x32\x00\x0a\x00\x00\x01q\x00\x00\x00\x00\x03\x01a?"
    with pytest.raises(ConnectionException) as caught:
        decode_method(declare, 0, len(declare))
    error = caught.value
    assert (error.code, error.class_id, error.method_id) == (502, 50, 10)


def test_bits_are_packed_from_the_lowest() -> None:
    method = spec.QueueDeclare(durable=True, auto_delete=True)
    assert method.encode()[7] == 0b01010
    method = spec.QueueDeclare(passive=True, exclusive=True, nowait=True)
    assert method.encode()[7] == 0b10101


@pytest.mark.parametrize(
    "method",
    [
        spec.QueueDeclare(queue="q" * 256),
        spec.QueueDeclare(ticket=2**16),
        spec.BasicQos(prefetch_size=2**32),
        spec.BasicQos(prefetch_count=-1),
        spec.BasicAck(delivery_tag=2**64),
        spec.ConnectionStart(version_major=256),
    ],
    ids=lambda method: method.NAME,
)
def test_an_argument_that_does_not_fit_is_refused(method: spec.Method) -> None:
    with pytest.raises(ConnectionException) as caught:
        method.encode()
    assert caught.value.code == 502


def test_delivery_tags_are_unsigned() -> None:
    data = spec.BasicAck(delivery_tag=2**64 - 1, multiple=True).encode()
    method = decode_method(data, 0, len(data))
    assert isinstance(method, spec.BasicAck)
    assert method.delivery_tag == 2**64 - 1
    assert method.multiple
