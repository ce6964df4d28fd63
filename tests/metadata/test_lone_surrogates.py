"""Text with a lone surrogate is refused where commands become bytes."""

from __future__ import annotations

import pytest

from warren.errors import Refusal
from warren.metadata import commands, encoding

BAD = "a\ud800"


@pytest.mark.parametrize(
    "command",
    [
        commands.DeclareVhost(BAD),
        commands.DeleteUser(BAD),
        commands.SetPolicy("/", "p", False, ".*", "queues", 0, {"dead-letter-exchange": BAD}),
        commands.DeclareExchange("/", "x", "fanout", True, False, False, {"alternate": BAD}),
        commands.SetUserTags("guest", [BAD]),
    ],
    ids=lambda command: type(command).__name__,
)
def test_text_that_is_not_utf_8_is_refused_and_shown(command: commands.Command) -> None:
    with pytest.raises(Refusal, match=r"'a\\ud800' is not valid UTF-8"):
        encoding.encode(command)
