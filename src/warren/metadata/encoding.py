"""The bytes of the metadata machine's commands in its log.

Layout: one MessagePack array a command, `[version, tag, fields...]`, fields in the order of the
constructor's parameters; AMQP argument tables are the bytes of their entries. `FORMS` has tags and
fields, as do `docs/formats/metadata.md`. The version is that of the layout, and stays: no node
reads another one.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any, Final, Literal, TypeAlias, final

import msgspec

from warren.errors import PRECONDITION_FAILED, CorruptRecord, ProtocolError, Refusal, StorageError
from warren.metadata.commands import (
    AddNode,
    Barrier,
    BeginCluster,
    Bind,
    ClearParameter,
    ClearPermissions,
    ClearPolicy,
    ClearTopicPermissions,
    Command,
    DeclareDelayed,
    DeclareExchange,
    DeclareQueue,
    DeclareVhost,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    KeepRecent,
    MoreSessions,
    NodeLabelled,
    NodeMoved,
    NodeSeen,
    NodeUp,
    RaiseVersion,
    RemoveNode,
    RenewHash,
    ReplaceNode,
    SetMembers,
    SetParameter,
    SetPassword,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUser,
    SetUserLimits,
    SetUserTags,
    SetVhost,
    SetVhostLimits,
    Unbind,
)
from warren.metadata.tables import MemberRecord
from warren.routing.exchange_types import PLAIN_TYPES
from warren.wire.amqp091.table import decode_table, encode_table

VERSION: Final = 2
TEXT_SHOWN: Final = 255
"""Characters of a text that is refused, in the message that says so."""

I64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


def member_rows(members: list[MemberRecord]) -> list[Any]:
    """Members as the log and snapshots hold them."""
    return [[member.node, member.incarnation, member.voter] for member in members]


def read_members(rows: list[Any]) -> list[MemberRecord]:
    """The members of a queue, from the rows that `member_rows` made."""
    return [MemberRecord(row[0], row[1], row[2]) for row in rows]


TABLE: Final[Any] = Annotated[bytes, "the entries of a table"]
MEMBERS: Final[Any] = list[tuple[str, I64, bool]]
EXCHANGE: Final[Any] = Literal[PLAIN_TYPES]
QUEUE: Final[Any] = Literal["classic", "quorum"]


@final
class Form:
    """How one command is written: its tag, and its fields as its constructor takes them.

    Attributes:
        tag: Never another command's.
        command: The class.
        names: Of the attributes that are written, in their order.
    """

    def __init__(
        self,
        tag: int,
        command: type[Command],
        names: str,
        forms: list[Any],
        earlier: tuple[int, ...] = (),
    ) -> None:
        """
        Args:
            names: With blanks between them.
            forms: As what each attribute is written, as msgspec checks it; `TABLE` and `MEMBERS`
                are converted.
            earlier: How many fields earlier releases wrote, where those were fewer; the constructor
                knows what stands for the rest.
        """
        self.tag: int = tag
        self.command: type[Command] = command
        self.names: list[str] = names.split()
        self._forms: list[Any] = forms
        assert len(self.names) == len(forms), f"a name and a form for each field of command {tag}"
        self._decoder: msgspec.msgpack.Decoder[Any] = self._decoder_of(len(forms))
        self._earlier: dict[int, msgspec.msgpack.Decoder[Any]] = {
            count: self._decoder_of(count) for count in earlier
        }

    def _decoder_of(self, count: int) -> msgspec.msgpack.Decoder[Any]:
        return msgspec.msgpack.Decoder(GenericAlias(tuple, (int, int, *self._forms[:count])))

    def encode(self, command: Command) -> bytes:
        """A command of this class as the log has it."""
        values: list[Any] = [VERSION, self.tag]
        for at, name in enumerate(self.names):
            value = getattr(command, name)
            form = self._forms[at]
            if form is TABLE:
                value = encode_table(value)
            elif form is MEMBERS:
                value = member_rows(value)
            values.append(value)
        return msgspec.msgpack.encode(values)

    def decode(self, data: bytes, count: int) -> Command:
        """The command of these bytes, which are an array with so many fields behind the tag."""
        values: list[Any] = list(self._earlier.get(count, self._decoder).decode(data)[2:])
        for at in range(len(values)):
            form = self._forms[at]
            if form is TABLE:
                values[at] = decode_table(values[at], 0, len(values[at]))
            elif form is MEMBERS:
                values[at] = read_members(values[at])
        make: Any = self.command
        made: Command = make(*values)
        return made


BINDING: Final = "vhost source destination to_exchange routing_key arguments durable"
BINDING_FORMS: Final[list[Any]] = [str, str, str, bool, str, TABLE, bool]

FORMS: Final = [
    Form(1, DeclareVhost, "name", [str]),
    Form(2, DeleteVhost, "name", [str]),
    Form(
        3,
        SetUser,
        "name password_hash hash_scheme tags loopback_only",
        [str, bytes, str, list[str], bool],
    ),
    Form(4, DeleteUser, "name", [str]),
    Form(5, SetPermissions, "user vhost configure write read", [str, str, str, str, str]),
    Form(6, ClearPermissions, "user vhost", [str, str]),
    Form(
        7,
        DeclareExchange,
        "vhost name kind durable auto_delete internal arguments",
        [str, str, EXCHANGE, bool, bool, bool, TABLE],
    ),
    Form(8, DeleteExchange, "vhost name if_unused durable", [str, str, bool, bool]),
    Form(
        9,
        DeclareQueue,
        "vhost name kind durable auto_delete exclusive_owner arguments group_id node members",
        [str, str, QUEUE, bool, bool, I64, TABLE, I64, str, MEMBERS],
    ),
    Form(10, DeleteQueue, "vhost name group_id durable", [str, str, I64, bool]),
    Form(11, Bind, BINDING, BINDING_FORMS),
    Form(12, Unbind, BINDING, BINDING_FORMS),
    Form(14, BeginCluster, "cluster_id version", [bytes, I64], earlier=(1,)),
    Form(15, AddNode, "name uid host port incarnation", [str, bytes, str, I64, I64]),
    Form(16, RemoveNode, "name force uid", [str, bool, bytes], earlier=(2,)),
    Form(
        17,
        NodeUp,
        "name uid nonce boot round version",
        [str, bytes, bytes, I64, I64, I64],
        earlier=(3, 5),
    ),
    Form(18, NodeMoved, "name host port", [str, str, I64]),
    Form(19, SetMembers, "group_id vhost name members revision", [I64, str, str, MEMBERS, I64]),
    Form(20, MoreSessions, "name nonce newest", [str, bytes, I64]),
    Form(
        21,
        SetPolicy,
        "vhost name operator pattern apply_to priority definition",
        [str, str, bool, str, str, I64, dict[str, Any]],
    ),
    Form(22, ClearPolicy, "vhost name operator", [str, str, bool]),
    Form(23, Barrier, "", []),
    Form(24, NodeSeen, "name nonce round", [str, bytes, I64]),
    Form(
        25,
        ReplaceNode,
        "name former_uid uid host port incarnation",
        [str, bytes, bytes, str, I64, I64],
    ),
    Form(26, RaiseVersion, "version", [I64]),
    Form(27, NodeLabelled, "name host_label zone", [str, str, str]),
    Form(28, SetPassword, "name password_hash hash_scheme", [str, bytes, str]),
    Form(29, SetUserTags, "name tags", [str, list[str]]),
    Form(30, SetUserLimits, "name limits cleared", [str, dict[str, I64], list[str]]),
    Form(31, SetVhost, "name create properties", [str, bool, dict[str, Any]]),
    Form(32, SetVhostLimits, "vhost limits", [str, dict[str, I64]]),
    Form(33, SetTopicPermissions, "user vhost exchange write read", [str, str, str, str, str]),
    Form(34, ClearTopicPermissions, "user vhost exchange", [str, str, str]),
    Form(
        36,
        DeclareDelayed,
        "vhost name durable auto_delete internal arguments group_id node members",
        [str, str, bool, bool, bool, TABLE, I64, str, MEMBERS],
    ),
    Form(35, KeepRecent, "vhost name records flavour", [str, str, list[bytes], I64]),
    Form(37, SetParameter, "vhost component name value", [str, str, str, bytes]),
    Form(38, ClearParameter, "vhost component name", [str, str, str]),
    Form(
        39,
        RenewHash,
        "name former_hash password_hash hash_scheme",
        [str, bytes, bytes, str],
    ),
]
"""Every command, once. Tag 13 is free."""

_BY_TAG: Final[dict[int, Form]] = {form.tag: form for form in FORMS}
_BY_CLASS: Final[dict[type[Command], Form]] = {form.command: form for form in FORMS}


def encode(command: Command) -> bytes:
    """A command's bytes for the log.

    Raises:
        Refusal: `PRECONDITION_FAILED`, some text of it has a lone surrogate, as JSON can.
    """
    try:
        return _BY_CLASS[type(command)].encode(command)
    except UnicodeEncodeError as error:
        text = str(error.object)[:TEXT_SHOWN].encode("utf-8", "backslashreplace").decode()
        raise Refusal(PRECONDITION_FAILED, f"'{text}' is not valid UTF-8") from None


def decode(data: bytes) -> Command:
    """The command that `encode` wrote.

    Raises:
        CorruptRecord: It is nothing that `encode` writes.
        StorageError: A later version of Warren wrote it.
    """
    # An array of at most fifteen; its first two, like all numbers below 128, are octets.
    if len(data) < 3 or data[0] >> 4 != 9:
        raise _corrupt("no command of any version")
    if data[1] != VERSION:
        raise StorageError(
            f"metadata log: command of version {data[1]}, this node knows version {VERSION}"
        )
    form = _BY_TAG.get(data[2])
    if form is None:
        # A later release's would come after the entry that raised the cluster version.
        raise _corrupt(f"command {data[2]} is unknown")
    try:
        return form.decode(data, (data[0] & 15) - 2)
    except (msgspec.MsgspecError, ProtocolError, RecursionError, ValueError) as error:
        raise _corrupt(str(error)) from error


def _corrupt(reason: str) -> CorruptRecord:
    return CorruptRecord("a command of the tables", 0, reason)
