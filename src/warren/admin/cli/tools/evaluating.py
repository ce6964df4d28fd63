"""`rabbitmqctl eval` for the expressions that suites of clients send: alarms and `channel_max`.

There is no Erlang to evaluate any other.
"""

from __future__ import annotations

import re
from typing import Any, Final

from warren.admin.cli.tools.command import (
    CONFIGURATION,
    CTL,
    UNAVAILABLE,
    Failure,
    Output,
    ToolAnswer,
    ToolCommand,
    Words,
    add,
)
from warren.admin.cli.tools.session import ToolSession

EXPRESSION_CHARACTERS_MAX: Final = 256
RESOURCE: Final = r"\{resource_limit,(memory|disk),node\(\)\}"
KNOWN: Final[tuple[tuple[str, str], ...]] = (
    ("say_alarm", rf"rabbit_alarm:set_alarm\(\{{{RESOURCE},\[\]\}}\)\."),
    ("end_alarm", rf"rabbit_alarm:clear_alarm\({RESOURCE}\)\."),
    ("set_channel_max", r"application:set_env\(rabbit,channel_max,(\d{1,9})\)\."),
    ("node", r"node\(\)\."),
)
"""What is done, and for which expression, without its white space."""


def _evaluate(session: ToolSession, words: Words) -> Output:
    expression = re.sub(r"\s+", "", " ".join(words.arguments)[:EXPRESSION_CHARACTERS_MAX])
    for done, pattern in KNOWN:
        found = re.fullmatch(pattern, expression)
        if found is not None:
            return _done(session, done, found)
    raise Failure(
        UNAVAILABLE,
        "'eval' is not available with Warren: Warren runs on no Erlang. It knows "
        "rabbit_alarm:set_alarm and clear_alarm of memory and disk, application:set_env of "
        "channel_max, and node().",
    )


def _done(session: ToolSession, done: str, found: re.Match[str]) -> ToolAnswer:
    if done == "node":
        return ToolAnswer(f"'{session.node}'" if "@" in session.node else session.node)
    if done == "set_channel_max":
        session.ask("set_channel_max", {"most": int(found[1])}, None)
    else:
        asked: dict[str, Any] = {"resource": found[1], "raised": done == "say_alarm"}
        session.ask("say_alarm", asked, None)
    return ToolAnswer("ok")


add(
    ToolCommand(
        "eval",
        (CTL,),
        "<expression>",
        CONFIGURATION,
        "Raises and clears alarms, and sets channel_max, by the expressions that tests send",
        _evaluate,
        1,
        -1,
    )
)
