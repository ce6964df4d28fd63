"""One import of definitions: makes what is not there, and replaces what has the same name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from warren.admin.service.caller import LOCAL
from warren.admin.service.definition_items import (
    BindingItem,
    ExchangeItem,
    Faults,
    Given,
    ParameterItem,
    PolicyItem,
    QueueItem,
    RightItem,
    UserItem,
    VhostItem,
    VhostProperties,
)
from warren.admin.service.parameters import POLICIES, POLICIES_ELSEWHERE, VHOST_LIMITS
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.topology import NOBODY, changed, handle_of
from warren.errors import NO_MAJORITY, PRECONDITION_FAILED, TIMED_OUT, Refusal
from warren.limits import SHORTSTR_BYTES_MAX
from warren.metadata import access_checks, checks
from warren.metadata.arguments import QUEUE_TYPE
from warren.metadata.commands import (
    Command,
    SetUser,
    SetUserLimits,
    SetVhostLimits,
)
from warren.metadata.exchange_checks import check_exchange_type
from warren.metadata.feeds import FEED_NAME, check_feed_value
from warren.metadata.parameters import CLUSTER_ID, FEED, check_set_global
from warren.metadata.passwords import SALT_BYTES, SHA256, hash_password
from warren.metadata.plain_tables import as_table
from warren.metadata.policy_checks import check_set_policy
from warren.queue_types import find
from warren.vhost.requests import BindRequest, DeclareExchangeRequest, DeclareQueueRequest

OPERATOR_POLICY = "operator_policy"
AT_ONCE = 64
"""Changes of one kind that are under way together."""
PREDECLARED = "amq."
EVERYTHING: Final = ".*"
"""A pattern of permissions that fits all names."""


def is_declared(exchange: str) -> bool:
    """Tell exchanges that were declared from those of every vhost."""
    return bool(exchange) and not exchange.startswith(PREDECLARED)


class Importing:
    """One import.

    Attributes:
        skipped: What was left out, and why.
    """

    def __init__(self, service: AdminService, given: Given, user: str) -> None:
        """Take what is to be imported, and do nothing yet.

        Args:
            user: Who may do everything in vhosts that are new, unless definitions say otherwise;
                empty for none of them.
        """
        self._service = service
        self._user = user
        self._given = given
        self._faults = Faults()
        self._new_users: list[UserItem] = []
        self._left_out: set[tuple[str, str]] = set()
        """Queues, by vhost and name, that are not made."""
        self.skipped: list[str] = []

    async def all(self) -> None:
        """Make all that can be, exchanges and queues once all is there that says what they are.

        A queue that came before its policy, or its vhost's type, could be one of the wrong type,
        and stay so: where something before cannot be, exchanges and queues are only looked at.

        Raises:
            Refusal: Something cannot be, with all that is so; or there is no majority.
        """
        await self._users()
        await self._vhosts()
        await self._rights()
        await self._parameters()
        await self._each("policy", self._given.policies, lambda item: self._policy(item, False))
        if self._faults.any:
            await self._looked_at()
        else:
            await self._topology()
        self._faults.check()

    async def _each(
        self, kind: str, items: list[Any], make: Callable[[Any], Awaitable[object]]
    ) -> None:
        """Do something for each item, some of them at once, and note what cannot be.

        Raises:
            Refusal: There is no majority, without which the others could not be, either.
        """
        slices = Slices()

        async def one(item: Any) -> None:
            try:
                await make(item)
            except Refusal as refusal:
                if refusal.kind in (NO_MAJORITY, TIMED_OUT):
                    raise Refusal(refusal.kind, f"{titled(kind, item)}: {refusal.text}") from None
                self._faults.add(refusal.kind, f"{titled(kind, item)}: {refusal.text}")

        for at in range(0, len(items), AT_ONCE):
            results = await asyncio.gather(
                *(one(item) for item in items[at : at + AT_ONCE]), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            await slices.breathe()

    async def _change(self, command: Command) -> None:
        await self._service.change(command)

    async def _users(self) -> None:
        """Make users, or replace them; limits that are not named stay."""

        async def make(item: UserItem) -> None:
            service = self._service
            new = item.name not in service.machine.users
            scheme, hashed = item.hashing_algorithm or SHA256, b""
            if item.password_hash is not None and item.password is not None:
                raise Refusal(PRECONDITION_FAILED, "both password and password_hash are provided")
            if item.password_hash:
                hashed = access_checks.decoded_hash(item.password_hash)
            elif item.password:
                salt = service.node.random.bytes(SALT_BYTES)
                scheme, hashed = SHA256, hash_password(item.password.encode(), salt)
            access_checks.check_new_user(item.name, hashed, scheme)
            tags = tags_of(item)
            access_checks.check_tags("user", tags)
            access_checks.check_limits(
                access_checks.OF_USERS, access_checks.USER_LIMITS, item.limits
            )
            await self._change(SetUser(item.name, hashed, scheme, tags, False))
            if item.limits:
                await self._change(SetUserLimits(item.name, item.limits, []))
            if new and item.permissions:
                self._new_users.append(item)

        await self._each("user", self._given.users, make)

    async def _vhosts(self) -> None:
        """Make vhosts, and give those that are there the properties that are named."""

        async def make(item: VhostItem) -> None:
            machine = self._service.machine
            properties: dict[str, Any] = {}
            for key in VhostProperties.__struct_fields__:
                beside = getattr(item, key)
                value = getattr(item.metadata, key) if beside is None else beside
                if value not in (None, ""):
                    properties[key] = value
            if properties.get("default_queue_type") == "undefined":
                del properties["default_queue_type"]
            if "tags" in properties:
                properties["tags"] = words(properties["tags"])
            command = access_checks.check_add_vhost(machine, item.name, properties)
            if command is not None:
                await self._change(command)
                if self._user:
                    everything = (self._user, item.name, EVERYTHING, EVERYTHING, EVERYTHING)
                    await self._change(access_checks.check_set_permissions(machine, *everything))
            elif properties:
                known = access_checks.check_update_vhost(machine, item.name, properties)
                await self._change(known)
            if item.tracing is not None:
                self._service.node.vhosts.tracer_of(item.name).on = item.tracing

        await self._each("vhost", self._given.vhosts, make)

    async def _rights(self) -> None:
        """Give permissions, first those that new users have beside their names."""
        machine = self._service.machine

        async def make(item: RightItem) -> None:
            await self._change(
                access_checks.check_set_permissions(
                    machine, item.user, item.vhost, item.configure, item.write, item.read
                )
            )

        beside = [
            RightItem(
                user=item.name,
                vhost=vhost,
                configure=right.configure,
                write=right.write,
                read=right.read,
            )
            for item in self._new_users
            for vhost, right in item.permissions.items()
        ]
        await self._each("permissions of user", beside, make)
        await self._each("permissions of user", self._given.permissions, make)

    async def _parameters(self) -> None:
        """Set parameters, limits of vhosts and operator policies among them."""
        machine = self._service.machine

        async def make(item: ParameterItem) -> None:
            if item.component == VHOST_LIMITS:
                text = msgspec.json.encode(item.value).decode()
                if isinstance(item.value, list) and not item.value:
                    await self._change(SetVhostLimits(item.vhost, {}))
                else:
                    await self._change(access_checks.check_vhost_limits(machine, item.vhost, text))
            elif item.component == OPERATOR_POLICY:
                await self._policy(policy_of(item), True)
            elif item.component in POLICIES:
                raise Refusal(PRECONDITION_FAILED, POLICIES_ELSEWHERE)
            elif item.component == FEED and item.name == FEED_NAME:
                text = msgspec.json.encode(item.value).decode()
                await self._change(check_feed_value(machine.parameters, item.vhost, text))
            else:
                self._leave_out("parameter", item, f"component {item.component} not found")

        async def make_global(item: ParameterItem) -> None:
            if item.name != CLUSTER_ID:
                text = msgspec.json.encode(item.value).decode()
                await self._change(check_set_global(machine.parameters, item.name, text))

        await self._each("parameter", self._given.parameters, make)
        await self._each("global parameter", self._given.global_parameters, make_global)

    async def _policy(self, item: PolicyItem, operator: bool) -> None:
        await self._change(
            check_set_policy(
                self._service.machine,
                operator,
                item.vhost,
                item.name,
                item.pattern,
                msgspec.json.encode(item.definition).decode(),
                item.priority,
                item.apply_to,
            )
        )

    async def _topology(self) -> None:
        """Declare exchanges and queues, then bind; topic permissions need their exchanges."""
        machine = self._service.machine

        async def topic(item: RightItem) -> None:
            await self._change(
                access_checks.check_set_topic_permissions(
                    machine, item.user, item.vhost, item.exchange, item.write, item.read
                )
            )

        await self._each("exchange", self._given.exchanges, self._exchange)
        await self._each("queue", self._given.queues, self._queue)
        await self._each("binding of exchange", self._given.bindings, self._bind)
        await self._each("topic permissions of user", self._given.topic_permissions, topic)

    async def _looked_at(self) -> None:
        """Note what cannot be of exchanges and queues, and make nothing."""
        machine = self._service.machine
        default = self._service.node.settings.default_queue_type

        async def exchange(item: ExchangeItem) -> None:
            request = self._exchange_request(item)
            if request is not None and item.vhost in machine.vhosts:
                checks.declare_exchange(
                    machine,
                    item.vhost,
                    request.name,
                    request.kind,
                    request.durable,
                    request.auto_delete,
                    request.internal,
                    request.arguments,
                )

        async def queue(item: QueueItem) -> None:
            request = self._queue_request(item)
            if request is not None and item.vhost in machine.vhosts:
                flags = (request.durable, False, request.auto_delete)
                arguments = checks.with_queue_type(
                    machine, item.vhost, *flags, request.arguments, default
                )
                checks.declare_queue(
                    machine, item.vhost, request.name, *flags, arguments, NOBODY, 0
                )

        await self._each("exchange", self._given.exchanges, exchange)
        await self._each("queue", self._given.queues, queue)

    def _exchange_request(self, item: ExchangeItem) -> DeclareExchangeRequest | None:
        """The declare of an exchange; None where there is one of its name already."""
        if not is_declared(item.name):
            return None
        check_exchange_type(item.type)
        tables = self._service.machine.vhosts.get(item.vhost)
        if tables is not None and item.name in tables.exchanges:
            return None
        return DeclareExchangeRequest(
            item.name,
            item.type,
            item.durable,
            item.auto_delete,
            item.internal,
            as_table(item.arguments, "its arguments"),
        )

    async def _exchange(self, item: ExchangeItem) -> None:
        request = self._exchange_request(item)
        if request is not None:
            access_checks.check_vhost(self._service.machine, item.vhost)
            handle = handle_of(self._service, LOCAL, item.vhost)
            await changed(self._service, lambda pending: handle.declare_exchange(request, pending))

    def _queue_request(self, item: QueueItem) -> DeclareQueueRequest | None:
        """The declare of a queue; None where there is one of its name, or is to be none."""
        arguments = as_table(item.arguments, "its arguments")
        if item.name.startswith(PREDECLARED):
            self._leave_out("queue", item, "the broker alone gives names that begin with 'amq.'")
            self._left_out.add((item.vhost, item.name))
            return None
        if item.type and QUEUE_TYPE not in arguments:
            if find(item.type) is None:
                self._leave_out("queue", item, f"queues of type '{item.type}' are not here")
                self._left_out.add((item.vhost, item.name))
                return None
            arguments[QUEUE_TYPE] = item.type
        tables = self._service.machine.vhosts.get(item.vhost)
        if tables is not None and item.name in tables.queues:
            return None
        return DeclareQueueRequest(item.name, item.durable, False, item.auto_delete, arguments)

    async def _queue(self, item: QueueItem) -> None:
        request = self._queue_request(item)
        if request is not None:
            access_checks.check_vhost(self._service.machine, item.vhost)
            handle = handle_of(self._service, LOCAL, item.vhost)
            await changed(self._service, lambda pending: handle.declare_queue(request, pending))

    async def _bind(self, item: BindingItem) -> None:
        if not item.source:
            return
        to_exchange = item.destination_type == "exchange"
        if not to_exchange and (item.vhost, item.destination) in self._left_out:
            what = f"queue '{item.destination[:SHORTSTR_BYTES_MAX]}' was left out"
            self._leave_out("binding of exchange", item, what)
            return
        request = BindRequest(
            item.source,
            item.destination,
            to_exchange,
            item.routing_key,
            as_table(item.arguments, "its arguments"),
        )
        handle = handle_of(self._service, LOCAL, item.vhost)
        await changed(self._service, lambda pending: handle.bind(request, pending))

    def _leave_out(self, kind: str, item: Any, why: str) -> None:
        self.skipped.append(f"{titled(kind, item)}: {why}")


def titled(kind: str, item: Any) -> str:
    """An item as texts call it."""
    name = getattr(item, "name", "") or getattr(item, "user", "") or getattr(item, "source", "")
    where = f" in vhost '{item.vhost[:SHORTSTR_BYTES_MAX]}'" if item.vhost else ""
    return f"{kind} '{name[:SHORTSTR_BYTES_MAX]}'{where}"


def policy_of(item: ParameterItem) -> PolicyItem:
    """An operator policy, which definitions have as the value of a parameter.

    Raises:
        Refusal: The value is none.
    """
    try:
        value = msgspec.convert(item.value, dict[str, Any])
        named = {**value, "vhost": item.vhost, "name": item.name}
        return msgspec.convert(named, PolicyItem)
    except msgspec.ValidationError as error:
        raise Refusal(PRECONDITION_FAILED, f"its value: {error}") from None


def tags_of(item: UserItem) -> list[str]:
    """The tags of a user.

    Raises:
        Refusal: It says nothing of them, which could take some away.
    """
    if item.tags is not None:
        return words(item.tags)
    if item.administrator is None:
        raise Refusal(PRECONDITION_FAILED, "tags_not_present")
    return ["administrator"] if item.administrator else []


def words(tags: list[str] | str) -> list[str]:
    """Tags, from a list or a text with commas between them."""
    if isinstance(tags, list):
        return tags
    return [word.strip() for word in tags.split(",") if word.strip()]
