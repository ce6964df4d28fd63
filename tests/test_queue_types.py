"""The table of queue types agrees with what else knows what there is."""

from __future__ import annotations

import pytest

from warren import queue_types
from warren.errors import CorruptRecord, StorageError
from warren.metadata import commands, encoding
from warren.metadata.arguments import HONOURED_ARGUMENTS
from warren.metadata.policies import APPLY_TO
from warren.queue_types import TYPES


def test_types_are_found_by_name() -> None:
    assert [each.name for each in TYPES.values()] == list(TYPES)
    assert queue_types.find("quorum") is queue_types.type_of("quorum") is queue_types.QUORUM
    assert queue_types.find("queue") is None
    with pytest.raises(StorageError, match="no queues of type 'queue'"):
        queue_types.type_of("queue")


def test_a_declare_can_be_stored_of_each_type_that_there_is() -> None:
    """Its decoder names them literally; any other value is damage."""
    for each in TYPES.values():
        declare = commands.DeclareQueue("/", "q", each.name, True, False, 0, {}, 1, "n")
        payload = encoding.encode(declare)
        if each.supported:
            decoded = encoding.decode(payload)
            assert isinstance(decoded, commands.DeclareQueue) and decoded.kind == each.name
        else:
            with pytest.raises(CorruptRecord):
                encoding.decode(payload)


def test_what_is_honoured_means_something_to_a_type() -> None:
    known = {name for each in TYPES.values() for name in each.arguments}
    assert set(HONOURED_ARGUMENTS) <= known
    assert not known & {name for each in TYPES.values() for name in each.further_arguments}
    assert {each.policies for each in TYPES.values()} < set(APPLY_TO)
    for each in TYPES.values():
        assert "x-queue-type" in each.arguments
        assert len(set(each.arguments)) == len(each.arguments)
