"""The table of messages between nodes holds all there are, as modules and docs have them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from warren.node.remote.proxying import FOR_QUEUES_NODE
from warren.replication import kinds
from warren.replication.kinds import FIRST_OF_GROUP, FIRST_OF_LINE, FIRST_OF_REPLIES, KINDS, Kind

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "warren"


def test_each_number_is_one_kind_and_each_constant_is_in_the_table() -> None:
    numbers = [kind.number for kind in KINDS]
    assert numbers == sorted(set(numbers))
    assert 0 < numbers[0] and numbers[-1] < 256
    constants = {name: value for name, value in vars(kinds).items() if type(value) is int}
    del constants["FIRST_OF_GROUP"], constants["FIRST_OF_LINE"]
    del constants["FIRST_OF_REPLIES"]
    assert constants == {kind.name: kind.number for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_module_that_it_names_draws_it(kind: Kind) -> None:
    head = ast.get_docstring(ast.parse((SOURCE / kind.drawn_in).read_text("utf-8")))
    assert head is not None
    drawn = re.findall(r"^ {4}((?:[A-Z_]+, )*[A-Z_]+)(?: |$)", head, re.MULTILINE)
    if kind.drawn_in == kinds.TRANSFERS:
        assert "SNAPSHOT frames" in head
    else:
        assert kind.name in ", ".join(drawn).split(", ")


def test_the_part_that_a_number_belongs_to_is_that_of_its_module() -> None:
    for kind in KINDS:
        of_lines = FIRST_OF_LINE <= kind.number < FIRST_OF_REPLIES
        assert (kind.drawn_in == kinds.LINES) == of_lines, kind.name
        of_replies = kind.number >= FIRST_OF_REPLIES
        assert (kind.drawn_in == kinds.REPLIES) == of_replies, kind.name
        about_groups = kind.drawn_in in (kinds.FRAMES, kinds.TRANSFERS, kinds.OBSERVING_FRAMES)
        assert about_groups == (FIRST_OF_GROUP <= kind.number < FIRST_OF_LINE), kind.name


def test_what_goes_to_the_queue_s_node_is_what_that_takes() -> None:
    assert set(FOR_QUEUES_NODE) == {kind.number for kind in KINDS if kind.way == kinds.TO_HOME}


def test_the_docs_have_the_same_table() -> None:
    text = (ROOT / "docs" / "formats" / "peer-link.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \| (.*?) \| `(.*?)` \|$", text, re.MULTILINE)
    assert rows == [(str(kind.number), kind.name, kind.way, kind.drawn_in) for kind in KINDS]
