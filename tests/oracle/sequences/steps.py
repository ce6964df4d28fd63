"""What a sequence is made of: steps as plain data that JSON can hold.

A step is a list of where, what and how:

- `["a/1", "queue.declare", {"queue": "@q0", ...}]`: any method of the protocol;
- `["a/1", "publish", {"exchange": "@e0", ...}, {properties}, ["body", ...]]`;
- `["a/1", "basic.ack", {"pick": 0, "multiple": false}]`: `pick` chooses one of the messages that
  the channel holds, by number, where `delivery_tag` would name one itself;
- `["a", "leave"]`: the connection is closed, and opened anew by the next step that uses it.

`@` stands for a beginning of names that no other play has. A value of a table whose type is not
told by JSON's is `{"~": letter, "v": value}`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tests.clients.raw import Typed

Step: TypeAlias = list[Any]
Sequence: TypeAlias = list[Step]


def typed(letter: str, value: Any = None) -> dict[str, Any]:
    """A value of a table with the letter of its type on the wire."""
    return {"~": letter, "v": value}


def real(value: Any, prefix: str) -> Any:
    """What a step means: values with their types, and names as they are in this play."""
    if isinstance(value, str):
        return value.replace("@", prefix)
    if isinstance(value, list):
        return [real(item, prefix) for item in value]
    if isinstance(value, dict):
        if "~" in value:
            return Typed(value["~"], real(value["v"], prefix))
        return {key: real(item, prefix) for key, item in value.items()}
    return value
