"""The bytes of the commands in the log of the tables: they are those of releases before."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from warren.errors import CorruptRecord
from warren.metadata import commands, encoding
from warren.metadata.commands import Command
from warren.metadata.encoding import FORMS, VERSION
from warren.metadata.tables import MemberRecord

FORMAT = Path(__file__).parents[2] / "docs" / "formats" / "metadata.md"

TABLE = {"x-one": 1, "x-two": "zwei"}
MEMBERS = [MemberRecord("a", 7, True), MemberRecord("b", 8, False)]
LARGEST = (1 << 63) - 1

WRITTEN: list[tuple[Command, str]] = [
    (commands.DeclareVhost("/"), "930201a12f"),
    (commands.DeleteVhost("v"), "930202a176"),
    (
        commands.SetUser("u", b"\x01\x02", "sha", ["administrator"], True),
        "970203a175c4020102a373686191ad61646d696e6973747261746f72c3",
    ),
    (commands.DeleteUser("u"), "930204a175"),
    (commands.SetPermissions("u", "/", "c", "w", "r"), "970205a175a12fa163a177a172"),
    (commands.ClearPermissions("u", "/"), "940206a175a12f"),
    (
        commands.DeclareExchange("/", "e", "topic", True, False, True, TABLE),
        "990207a12fa165a5746f706963c3c2c3c41e05782d6f6e656c000000000000000105782d"
        "74776f53000000047a776569",
    ),
    (commands.DeleteExchange("/", "e", True, False), "960208a12fa165c3c2"),
    (
        commands.DeclareQueue("/", "q", "quorum", True, False, 0, TABLE, 1 << 40, "a", MEMBERS),
        "9c0209a12fa171a671756f72756dc3c200c41e05782d6f6e656c00000000000000010578"
        "2d74776f53000000047a776569cf0000010000000000a1619293a16107c393a16208c2",
    ),
    (
        commands.DeclareQueue("/", "ü", "classic", False, True, 5 << 32, {}, LARGEST),
        "9c0209a12fa2c3bca7636c6173736963c2c3cf0000000500000000c400cf7fffffffffffffffa090",
    ),
    (commands.DeleteQueue("/", "q", 1 << 40, True), "96020aa12fa171cf0000010000000000c3"),
    (
        commands.Bind("/", "e", "q", False, "k.#", TABLE, True),
        "99020ba12fa165a171c2a36b2e23c41e05782d6f6e656c000000000000000105782d7477"
        "6f53000000047a776569c3",
    ),
    (commands.Unbind("/", "e", "f", True, "", {}, False), "99020ca12fa165a166c3a0c400c2"),
    (commands.BeginCluster(bytes(range(16)), 2), "94020ec410000102030405060708090a0b0c0d0e0f02"),
    (commands.AddNode("a", b"u", "host", 25672, 3), "97020fa161c40175a4686f7374cd644803"),
    (commands.RemoveNode("a", True, b"u"), "950210a161c3c40175"),
    (commands.NodeUp("a", b"u", b"n", 4, 99, 2), "980211a161c40175c4016e046302"),
    (commands.NodeMoved("a", "host", 1), "950212a161a4686f737401"),
    (
        commands.SetMembers(-(1 << 63), "/", "q", MEMBERS, 3),
        "970213d38000000000000000a12fa1719293a16107c393a16208c203",
    ),
    (commands.MoreSessions("a", b"n", 70_000), "950214a161c4016ece00011170"),
    (
        commands.SetPolicy("/", "p", True, "^q", "queues", -1, {"delivery-limit": 3}),
        "990215a12fa170c3a25e71a6717565756573ff81ae64656c69766572792d6c696d697403",
    ),
    (commands.ClearPolicy("/", "p", False), "950216a12fa170c2"),
    (commands.Barrier(), "920217"),
    (commands.NodeSeen("a", b"n", 5), "950218a161c4016e05"),
    (
        commands.ReplaceNode("a", b"old", b"new", "host", 1, 2),
        "980219a161c4036f6c64c4036e6577a4686f73740102",
    ),
    (commands.RaiseVersion(2), "93021a02"),
    (commands.NodeLabelled("a", "host", "züri"), "95021ba161a4686f7374a57ac3bc7269"),
    (commands.SetPassword("u", b"\x01", "sha"), "95021ca175c40101a3736861"),
    (commands.SetUserTags("u", ["t"]), "94021da17591a174"),
    (
        commands.RenewHash("u", b"\x01", b"\x02", "argon2id"),
        "960227a175c40101c40102a86172676f6e326964",
    ),
    (
        commands.SetUserLimits("u", {"max-channels": 3}, ["x"]),
        "95021ea17581ac6d61782d6368616e6e656c730391a178",
    ),
    (
        commands.SetVhost("v", True, {"tags": ["t"]}),
        "95021fa176c381a47461677391a174",
    ),
    (commands.SetVhostLimits("v", {"max-queues": -1}), "940220a17681aa6d61782d717565756573ff"),
    (commands.SetTopicPermissions("u", "v", "e", "w", "r"), "970221a175a176a165a177a172"),
    (commands.ClearTopicPermissions("u", "v", ""), "950222a175a176a0"),
    (
        commands.DeclareDelayed(
            "v",
            "x",
            True,
            False,
            False,
            {"x-delayed-type": "direct"},
            9,
            "n",
            [MemberRecord("n", 9, True)],
        ),
        "9b0224a176a178c3c2c2c41a0e782d64656c617965642d74797065530000000664697265637409a16e9193a16e"
        "09c3",
    ),
    (commands.SetParameter("v", "c", "n", b"{}"), "960225a176a163a16ec4027b7d"),
    (commands.ClearParameter("", "", "n"), "950226a0a0a16e"),
    (commands.KeepRecent("v", "x", [b"ab", b""], 0), "960223a176a17892c4026162c40000"),
]
"""Commands, and what the release that was the first one wrote for them, but for later fields."""

EARLIER: list[tuple[Command, list[object]]] = [
    (commands.BeginCluster(b"c", 1), [14, b"c"]),
    (commands.RemoveNode("a", True, b""), [16, "a", True]),
    (commands.NodeUp("a", b"u", b"n", 0, 0, 1), [17, "a", b"u", b"n"]),
    (commands.NodeUp("a", b"u", b"n", 4, 9, 1), [17, "a", b"u", b"n", 4, 9]),
]
"""Commands as releases wrote them that knew fewer fields."""


def attributes(command: Command) -> dict[str, object]:
    """All that a command says."""
    found = {name: getattr(command, name) for name in dir(command) if not name.startswith("_")}
    found = {name: value for name, value in found.items() if not callable(value)}
    if "members" in found:
        found["members"] = encoding.member_rows(found["members"])
    return found


@pytest.mark.parametrize(("command", "written"), WRITTEN, ids=lambda value: type(value).__name__)
def test_bytes_are_those_of_earlier_releases(command: Command, written: str) -> None:
    assert encoding.encode(command).hex() == written
    decoded = encoding.decode(bytes.fromhex(written))
    assert type(decoded) is type(command)
    assert attributes(decoded) == attributes(command)


@pytest.mark.parametrize(("command", "row"), EARLIER)
def test_what_earlier_releases_left_out_has_a_meaning(command: Command, row: list[object]) -> None:
    decoded = encoding.decode(msgspec.msgpack.encode([VERSION, *row]))
    assert type(decoded) is type(command)
    assert attributes(decoded) == attributes(command)


def test_every_command_is_written_here_and_drawn_in_the_format() -> None:
    assert {type(command) for command, _ in WRITTEN} == {form.command for form in FORMS}
    rows = re.findall(
        r"^\| (\d+) \| ([a-z ]+?) \| (.*?) ?\|$", FORMAT.read_text("utf-8"), re.MULTILINE
    )
    drawn = {int(tag): name.title().replace(" ", "") for tag, name, _ in rows if name != "free"}
    assert drawn == {form.tag: form.command.__name__ for form in FORMS}
    assert len({form.tag for form in FORMS}) == len(FORMS)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.command.__name__)
def test_no_other_number_of_fields_is_a_command(form: encoding.Form) -> None:
    """Those of earlier releases excepted, which had fewer."""
    whole = next(written for command, written in WRITTEN if type(command) is form.command)
    row = msgspec.msgpack.decode(bytes.fromhex(whole))
    known = {len(row)} | {len(fields) + 1 for _, fields in EARLIER if fields[0] == form.tag}
    for count in range(2, len(row) + 2):
        if count not in known:
            with pytest.raises(CorruptRecord):
                encoding.decode(msgspec.msgpack.encode([*row, 1][:count]))
