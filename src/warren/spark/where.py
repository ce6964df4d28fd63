"""`option("where", ...)`: the rows that a query of `spark.read` is to have, as a text of SQL.

    topic IN ('orders', 'returns') AND (key LIKE 'eu.%' OR priority >= 5) AND user_id IS NULL

A row that the text keeps is one that Spark's `.where` keeps with the same text: null is neither
true nor false, and text is compared by its bytes in UTF-8. What Spark would convert first, such as
a number that is compared with text, is refused; so is all else that is not surely the same.

    condition  = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation   = NOT negation | ( condition ) | test
    test       = column (= | == | <=> | <> | != | < | <= | > | >=) literal
               | column [NOT] IN ( literal { , literal } )
               | column [NOT] BETWEEN literal AND literal
               | column [NOT] LIKE text
               | column IS [NOT] NULL
    literal    = NULL | text | 42 | X'00ff' | TIMESTAMP '2026-01-31 10:00:00Z'

Negations go down to the tests when the text is parsed, as De Morgan has it, which holds for SQL's
three values, too. So a row is kept if and only if the tests that are left are true in the right
places, and what is null counts as false there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from warren.errors import ConfigError

#: What a column is compared with; a time is microseconds since 1970.
Literal = int | str | bytes | None

#: Brackets and negations within each other: conditions are pickled, which nests deeper still.
_DEPTH_MAX: Final = 50

#: The least and the greatest number that a column can have.
LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1

_NEGATED: Final = {
    "=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
    "<=>": "not <=>", "not <=>": "<=>", "in": "not in", "not in": "in",
    "like": "not like", "not like": "like", "is null": "is not null", "is not null": "is null",
}  # fmt: skip
_SYNONYMS: Final = {"==": "=", "!=": "<>"}
_COMPARISONS: Final = {"=", "<>", "<", "<=", ">", ">=", "<=>"}

_TOKENS: Final = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<binary>[xX]'(?:[0-9A-Fa-f]{2})*')"
    r"|(?P<text>'(?:[^'\\]|'')*')"
    r"|(?P<number>-?[0-9]+(?![\w.]))"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*|`[A-Za-z_0-9]+`)"
    r"|(?P<sign><=>|<=|>=|<>|!=|==|[=<>(),])"
)
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: How a literal of each kind of column is written, for errors.
_WRITTEN: Final = {
    "string": "'text'",
    "binary": "X'00ff'",
    "int": "a whole number of 64 bits",
    "long": "a whole number of 64 bits",
    "timestamp": "TIMESTAMP '2026-01-31 10:00:00Z', with a zone",
}


@dataclass(frozen=True)
class ColumnTest:
    """Something that is true or not of one column.

    Attributes:
        column: Its name.
        kind: Its kind (`warren.spark.schema`).
        operation: `=`, `<>`, `<`, `<=`, `>`, `>=`, `in`, `like`, `is null`, `<=>`; the last four
            also with `not`, as in `not in` and `is not null`.
        values: What the column is compared with, none of it null.
    """

    column: str
    kind: str
    operation: str
    values: tuple[int | str | bytes, ...] = ()


@dataclass(frozen=True)
class AllOf:
    """True where each of the parts is, so without parts it is true of each row."""

    parts: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class AnyOf:
    """True where one of the parts is, so without parts it is true of no row."""

    parts: tuple[Condition, ...] = ()


Condition = ColumnTest | AllOf | AnyOf

NEVER: Final = AnyOf()


def parse_where(text: str, kinds: Mapping[str, str]) -> Condition:
    """Read the text of an option `where`.

    Args:
        kinds: The kind of each column there is.

    Raises:
        ConfigError: It is not of the form that is described above.
    """
    return _Parser(text, kinds).whole()


def columns_of(condition: Condition) -> set[str]:
    """The columns whose values decide."""
    if isinstance(condition, ColumnTest):
        return {condition.column}
    return set().union(*(columns_of(part) for part in condition.parts))


def is_true(test: ColumnTest, value: Literal) -> bool:
    """Whether a test is true of one value, which is as `ColumnTest.values` are, or null."""
    if test.operation in ("is null", "is not null"):
        return (value is None) == (test.operation == "is null")
    if value is None:
        return test.operation == "not <=>"
    if test.operation in ("like", "not like"):
        (pattern,) = test.values
        found = _like(str(pattern)).fullmatch(str(value)) is not None
        return found == (test.operation == "like")
    mine = _comparable(value)
    others = [_comparable(other) for other in test.values]
    if test.operation in ("in", "not in"):
        return bool(mine in others) == (test.operation == "in")
    (other,) = others
    same = bool(mine == other)
    less = bool(mine < other)
    return {
        "=": same, "<=>": same, "<>": not same, "not <=>": not same,
        "<": less, "<=": less or same, ">": not less and not same, ">=": not less,
    }[test.operation]  # fmt: skip


def may_be_true(condition: Condition, constants: Mapping[str, Literal]) -> bool:
    """Whether there can be a row that is kept, of those that have the same values in some columns.

    Args:
        constants: These values.
    """
    if isinstance(condition, ColumnTest):
        known = condition.column in constants
        return not known or is_true(condition, constants[condition.column])
    parts = (may_be_true(part, constants) for part in condition.parts)
    return all(parts) if isinstance(condition, AllOf) else any(parts)


def _comparable(value: int | str | bytes) -> Any:
    """What a value is compared as: bytes for text. Those of one column are of one kind."""
    return value.encode() if isinstance(value, str) else value


def _like(pattern: str) -> re.Pattern[str]:
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(each) or re.escape(each) for each in pattern), re.DOTALL)


class _Parser:
    """Reads one text from left to right, by the grammar above."""

    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        self._text = text
        self._kinds = kinds
        self._columns = {name.lower(): name for name in kinds}
        self._at = 0
        self._begin = 0
        self._kind = ""
        self._token = ""
        self._depth = 0
        self._next()

    def whole(self) -> Condition:
        found = self._any(False)
        if self._kind:
            raise self._wrong("AND, OR or the end")
        return found

    def _next(self) -> None:
        """Go to the next token; behind the last one its kind is empty."""
        self._begin, self._kind, self._token = self._at, "", ""
        while self._at < len(self._text):
            found = _TOKENS.match(self._text, self._at)
            self._begin = self._at
            if found is None:
                raise self._wrong("a column, a literal or a sign, without backslashes")
            self._at = found.end()
            if found.lastgroup != "space":
                assert found.lastgroup is not None, "each way to match is named"
                self._kind, self._token = found.lastgroup, found.group()
                return

    def _wrong(self, allowed: str) -> ConfigError:
        there = self._text[self._begin : self._begin + 20]
        where = f"before {there!r}" if there.strip() else "at its end"
        return ConfigError(f"option 'where' is wrong {where}; allowed is {allowed}")

    def _is(self, word: str) -> bool:
        """Whether a word or a sign comes, which is passed then."""
        if self._kind not in ("name", "sign") or self._token.lower() != word:
            return False
        self._next()
        return True

    def _need(self, word: str) -> None:
        if not self._is(word):
            raise self._wrong(word.upper())

    def _any(self, negated: bool) -> Condition:
        parts = [self._all(negated)]
        while self._is("or"):
            parts.append(self._all(negated))
        return _joined(parts, every=negated)

    def _all(self, negated: bool) -> Condition:
        parts = [self._one(negated)]
        while self._is("and"):
            parts.append(self._one(negated))
        return _joined(parts, every=not negated)

    def _one(self, negated: bool) -> Condition:
        if self._depth > _DEPTH_MAX:
            raise self._wrong(f"no more than {_DEPTH_MAX} brackets and negations within each other")
        self._depth += 1
        if self._is("not"):
            found = self._one(not negated)
        elif self._is("("):
            found = self._any(negated)
            self._need(")")
        else:
            found = self._test(negated)
        self._depth -= 1
        return found

    def _test(self, negated: bool) -> Condition:
        column = self._columns.get(self._token.strip("`").lower())
        if self._kind != "name" or column is None:
            raise self._wrong("NOT, an opening bracket or one of " + ", ".join(self._kinds))
        self._next()
        sign = _SYNONYMS.get(self._token, self._token)
        if self._kind == "sign" and sign in _COMPARISONS:
            self._next()
            return self._compared(column, sign, [self._literal(column)], negated)
        if self._is("is"):
            negated ^= self._is("not")
            self._need("null")
            return self._compared(column, "is null", [], negated)
        negated ^= self._is("not")
        if self._is("in"):
            self._need("(")
            values = [self._literal(column)]
            while self._is(","):
                values.append(self._literal(column))
            self._need(")")
            return self._compared(column, "in", values, negated)
        if self._is("between"):
            low = self._literal(column)
            self._need("and")
            ends = [(">=", low), ("<=", self._literal(column))]
            tests = [self._compared(column, sign, [end], negated) for sign, end in ends]
            return _joined(tests, every=not negated)
        if self._kinds[column] == "string" and self._is("like"):
            return self._compared(column, "like", [self._literal(column)], negated)
        raise self._wrong("a comparison, IS, IN, BETWEEN or, of text, LIKE")

    def _literal(self, column: str) -> Literal:
        """A literal to compare a column with, which is passed."""
        kind = self._kinds[column]
        if self._is("null"):
            return None
        wrong = self._wrong(f"{_WRITTEN.get(kind, 'nothing')} or NULL for column {column!r}")
        value: Literal
        if kind == "timestamp" and self._is("timestamp"):
            if self._kind != "text" or (value := _microseconds(self._token[1:-1])) is None:
                raise wrong
        elif kind == "string" and self._kind == "text":
            value = self._token[1:-1].replace("''", "'")
        elif kind == "binary" and self._kind == "binary":
            value = bytes.fromhex(self._token[2:-1])
        elif kind in ("int", "long") and self._kind == "number":
            # Spark has larger ones, too, which are more than null is by its rules for decimals.
            if not LONG_MIN <= (value := int(self._token)) <= LONG_MAX:
                raise wrong
        else:
            raise wrong
        self._next()
        return value

    def _compared(
        self, column: str, operation: str, values: list[Literal], negated: bool
    ) -> Condition:
        """A test, or its negation, without nulls."""
        kind = self._kinds[column]
        if operation == "<=>" and values == [None]:
            operation, values = "is null", []
        if operation in ("in", "like", *_COMPARISONS) and None in values:
            # Neither this nor its negation is ever true, but that something may be in a list.
            if operation != "in" or negated:
                return NEVER
        kept = [value for value in values if value is not None]
        return ColumnTest(column, kind, _NEGATED[operation] if negated else operation, tuple(kept))


def _joined(parts: list[Condition], every: bool) -> Condition:
    """All of some parts, or any of them."""
    if len(parts) == 1:
        return parts[0]
    return AllOf(tuple(parts)) if every else AnyOf(tuple(parts))


def _microseconds(text: str) -> int | None:
    """The time that a literal names, in microseconds since 1970; None where it names none."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    *parts, fraction, sign, hours, minutes = found.groups()
    year, month, day, hour, minute, second = map(int, parts)
    try:
        time = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    ahead = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if ahead > timedelta(hours=18):
        return None
    since = time - _EPOCH - (-ahead if sign == "-" else ahead)
    return since // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0"))
