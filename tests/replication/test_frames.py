"""What frames between nodes say of the messages that they carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.node.pair import sealed
from warren.errors import CorruptRecord
from warren.log.batch import KIND_COMMAND
from warren.message.flavours import FLAVOUR_MAX
from warren.replication.frames import (
    COUNT_BITS,
    count_at,
    flavour_at,
    propose_frame,
    read_proposal,
    write_count,
)
from warren.replication.proposals import Proposal


@given(st.integers(0, (1 << COUNT_BITS) - 1), st.integers(0, FLAVOUR_MAX), st.binary(max_size=9))
def test_a_count_says_the_flavour_too(count: int, flavour: int, before: bytes) -> None:
    writer = BytesWriter()
    writer.write(before)
    write_count(writer, count, flavour)
    data = writer.getvalue()
    assert len(data) == len(before) + 4
    assert (count_at(data, len(before)), flavour_at(data, len(before))) == (count, flavour)
    if flavour == 0:
        assert data[len(before) :] == count.to_bytes(4, "little")


def test_a_command_has_no_flavour() -> None:
    proposal = Proposal(1, KIND_COMMAND, 0, b"", b"x", None, 1)
    with pytest.raises(CorruptRecord):
        read_proposal(sealed(b"".join(propose_frame(7, 1, proposal))))
