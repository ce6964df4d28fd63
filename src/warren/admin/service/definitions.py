"""Definitions: all that operators and applications have declared, as RabbitMQ writes it in JSON.

What RabbitMQ exports can be imported, and the other way round. Messages are no part of it, nor what
ends with a connection or a process. An import changes nothing before all of it was looked at; then
it makes what is not there, and replaces users, rights, policies and parameters of the same name.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from warren import __version__
from warren.admin.service.caller import LOCAL, Caller
from warren.admin.service.operation import operation
from warren.admin.service.parameters import LIMITS_NAME, VHOST_LIMITS
from warren.admin.service.rows import Imported
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.status import cluster_name
from warren.admin.service.topology import changed, handle_of
from warren.errors import PRECONDITION_FAILED, Refusal
from warren.limits import SHORTSTR_BYTES_MAX
from warren.metadata import access_checks
from warren.metadata.commands import (
    Command,
    SetUser,
    SetUserLimits,
    SetVhost,
    SetVhostLimits,
)
from warren.metadata.exchange_checks import check_exchange_type
from warren.metadata.feeds import FEED_NAME, check_feed_value
from warren.metadata.parameters import FEED, check_set_global
from warren.metadata.passwords import SALT_BYTES, SHA256, hash_password
from warren.metadata.plain_tables import as_table, plain
from warren.metadata.policy_checks import check_set_policy
from warren.metadata.tables import PolicyRecord, VhostRecord
from warren.vhost.requests import BindRequest, DeclareExchangeRequest, DeclareQueueRequest

OPERATOR_POLICY = "operator_policy"
FORMAT = "cluster"
RABBITMQ_VERSION = "4.3.0"
"""Of the RabbitMQ whose definitions these are like, which its import looks for."""
AT_ONCE = 64
"""Changes of one kind that are under way together."""
PREDECLARED = "amq."
KINDS = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters"),
    *("policies", "queues", "exchanges", "bindings"),
)
"""What definitions have lists of."""
INTERNAL_ID = "internal_cluster_id"
"""A global parameter that each cluster of RabbitMQ draws for itself."""


@operation()
async def export_definitions(
    service: AdminService, caller: Caller, *, vhost: str = ""
) -> dict[str, Any]:
    """Write down all definitions, or those of one vhost.

    Raises:
        Refusal: There is no such vhost.
    """
    machine = service.machine
    if vhost:
        return await _of_vhost(access_checks.check_vhost(machine, vhost))
    users = [
        {
            "name": user.name,
            "password_hash": hash_text(user.password_hash),
            "hashing_algorithm": user.hash_scheme,
            "tags": list(user.tags),
            "limits": dict(user.limits),
        }
        for user in machine.users.values()
    ]
    found: dict[str, Any] = {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "Warren",
        "product_version": __version__,
        "rabbitmq_definition_format": FORMAT,
        "original_cluster_name": cluster_name(service),
        "explanation": f"Definitions of cluster '{cluster_name(service)}'",
        "users": users,
        "vhosts": [],
        "permissions": [],
        "topic_permissions": [],
        "parameters": [],
        "global_parameters": [
            {"name": name, "value": msgspec.json.decode(value)}
            for (_, component, name), value in machine.parameters.items()
            if not component
        ],
        "policies": [],
        "queues": [],
        "exchanges": [],
        "bindings": [],
    }
    for tables in list(machine.vhosts.values()):
        found["vhosts"].append(vhost_definition(tables))
        found["permissions"] += [
            {
                "user": row.user,
                "vhost": tables.name,
                "configure": row.configure,
                "write": row.write,
                "read": row.read,
            }
            for row in tables.permissions.values()
        ]
        found["topic_permissions"] += [
            {
                "user": row.user,
                "vhost": tables.name,
                "exchange": row.exchange,
                "write": row.write,
                "read": row.read,
            }
            for bounds in tables.topic_permissions.values()
            for row in bounds.values()
        ]
        found["parameters"] += [
            {
                "vhost": of_vhost,
                "component": component,
                "name": name,
                "value": msgspec.json.decode(value),
            }
            for (of_vhost, component, name), value in machine.parameters.items()
            if component and of_vhost == tables.name
        ]
        own = await _of_vhost(tables)
        for kind in ("parameters", "policies", "queues", "exchanges", "bindings"):
            found[kind] += [{"vhost": tables.name, **row} for row in own[kind]]
    return found


@operation()
async def import_definitions(
    service: AdminService, caller: Caller, *, definitions: dict[str, Any], vhost: str = ""
) -> Imported:
    """Have all that definitions say.

    Args:
        vhost: Where what they say belongs, if they are those of one vhost.

    Raises:
        Refusal: Something of it cannot be, or there is no majority. What came before it is there.
    """
    await service.catch_up()
    if vhost:
        access_checks.check_vhost(service.machine, vhost)
    given = Given(definitions, vhost)
    own = caller is not LOCAL and caller.name in service.machine.users
    importing = Importing(service, given, caller.name if own else "")
    await importing.users()
    await importing.vhosts()
    await importing.rights()
    await importing.parameters()
    await importing.policies()
    await importing.topology()
    return Imported(counts=given.counts(), skipped=importing.skipped)


def hash_text(password_hash: bytes) -> str:
    """A hash of a password as definitions have it, in Base64."""
    return base64.b64encode(password_hash).decode()


def vhost_definition(tables: VhostRecord) -> dict[str, Any]:
    """A vhost with its properties."""
    properties: dict[str, Any] = {"description": tables.description, "tags": list(tables.tags)}
    if tables.default_queue_type:
        properties["default_queue_type"] = tables.default_queue_type
    if tables.protected:
        properties["protected_from_deletion"] = True
    limits = dict(tables.limits)
    return {"name": tables.name, **properties, "metadata": properties, "limits": limits}


def policy_definition(policy: PolicyRecord) -> dict[str, Any]:
    """A policy but for its name."""
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": int(policy.priority),
    }


async def _of_vhost(tables: VhostRecord) -> dict[str, Any]:
    """What one vhost has, without its name."""
    slices = Slices()
    parameters: list[dict[str, Any]] = []
    if tables.limits:
        parameters.append(
            {"component": VHOST_LIMITS, "name": LIMITS_NAME, "value": dict(tables.limits)}
        )
    for policy in tables.operator_policies.values():
        parameters.append(
            {
                "component": OPERATOR_POLICY,
                "name": policy.name,
                "value": policy_definition(policy),
            }
        )
    queues: list[dict[str, Any]] = []
    for queue in tables.queues_in_order():
        if not queue.type.delays and not queue.in_memory():
            queues.append(
                {
                    "name": queue.name,
                    "type": queue.kind,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": plain(queue.arguments),
                }
            )
        await slices.breathe()
    exchanges: list[dict[str, Any]] = []
    bindings: list[dict[str, Any]] = []
    for exchange in list(tables.exchanges.values()):
        if is_declared(exchange.name) and exchange.durable:
            exchanges.append(
                {
                    "name": exchange.name,
                    "type": exchange.kind,
                    "durable": exchange.durable,
                    "auto_delete": exchange.auto_delete,
                    "internal": exchange.internal,
                    "arguments": plain(exchange.arguments),
                }
            )
        for binding in list(exchange.bound.values()):
            if binding.durable:
                bindings.append(
                    {
                        "source": binding.source,
                        "destination": binding.destination,
                        "destination_type": "exchange" if binding.to_exchange else "queue",
                        "routing_key": binding.routing_key,
                        "arguments": plain(binding.arguments),
                    }
                )
            await slices.breathe()
        await slices.breathe()
    return {
        "parameters": parameters,
        "policies": [
            {"name": policy.name, **policy_definition(policy)}
            for policy in tables.policies.values()
        ],
        "queues": queues,
        "exchanges": exchanges,
        "bindings": bindings,
    }


def is_declared(exchange: str) -> bool:
    """Tell exchanges that were declared from those of every vhost."""
    return bool(exchange) and not exchange.startswith(PREDECLARED)


# --- import -------------------------------------------------------------------------------------


class _Item(msgspec.Struct, kw_only=True):
    """Anything with a name, in a vhost or not."""

    name: str = ""
    vhost: str = ""


class UserItem(_Item, kw_only=True):
    """A user; `tags` is a list, or words with commas between them."""

    password_hash: str | None = None
    password: str | None = None
    hashing_algorithm: str = SHA256
    tags: list[str] | str = []
    limits: dict[str, Any] = {}


class VhostProperties(msgspec.Struct, kw_only=True):
    """What may be said of a vhost."""

    description: str | None = None
    tags: list[str] | str | None = None
    default_queue_type: str | None = None
    protected_from_deletion: bool | None = None


class VhostItem(VhostProperties, kw_only=True):
    """A vhost, with its properties in `metadata`, beside its name, or in both."""

    name: str = ""
    vhost: str = ""
    metadata: VhostProperties = msgspec.field(default_factory=VhostProperties)


class RightItem(_Item, kw_only=True):
    """Permissions, or topic permissions where it names an exchange."""

    user: str
    write: str
    read: str
    configure: str = ""
    exchange: str = ""


class ParameterItem(_Item, kw_only=True):
    """A runtime parameter."""

    component: str = ""
    value: Any = None


class PolicyItem(_Item, kw_only=True, rename={"apply_to": "apply-to"}):
    """One policy of the definitions."""

    pattern: str
    definition: dict[str, Any]
    priority: int = 0
    apply_to: str = "all"


class QueueItem(_Item, kw_only=True):
    """One queue of the definitions."""

    durable: bool = True
    auto_delete: bool = False
    arguments: Any = {}
    type: str | None = None


class ExchangeItem(_Item, kw_only=True):
    """One exchange of the definitions."""

    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Any = {}


class BindingItem(_Item, kw_only=True):
    """One binding of the definitions."""

    source: str
    destination: str
    destination_type: str = "queue"
    routing_key: str = ""
    arguments: Any = {}


class Given:
    """What definitions say, each kind as a list of items, looked at as a whole."""

    def __init__(self, definitions: dict[str, Any], vhost: str) -> None:
        """
        Args:
            vhost: Where what they say belongs that names none.

        Raises:
            Refusal: They are no definitions.
        """
        self._vhost = vhost
        self._definitions = definitions
        self.users: list[UserItem] = self._items("users", UserItem)
        self.vhosts: list[VhostItem] = self._items("vhosts", VhostItem)
        self.permissions: list[RightItem] = self._items("permissions", RightItem)
        self.topic_permissions: list[RightItem] = self._items("topic_permissions", RightItem)
        self.parameters: list[ParameterItem] = self._items("parameters", ParameterItem)
        self.global_parameters: list[ParameterItem] = self._items(
            "global_parameters", ParameterItem
        )
        self.policies: list[PolicyItem] = self._items("policies", PolicyItem)
        self.queues: list[QueueItem] = self._items("queues", QueueItem)
        self.exchanges: list[ExchangeItem] = self._items("exchanges", ExchangeItem)
        self.bindings: list[BindingItem] = self._items("bindings", BindingItem)

    def _items(self, kind: str, shape: Any) -> list[Any]:
        try:
            found = self._definitions.get(kind)
            items: list[Any] = msgspec.convert([] if found is None else found, list[shape])
        except msgspec.ValidationError as error:
            raise Refusal(PRECONDITION_FAILED, f"{kind} of the definitions: {error}") from None
        for item in items:
            if self._vhost or not item.vhost:
                item.vhost = self._vhost
        return items

    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        found = {name: value for name, value in vars(self).items() if isinstance(value, list)}
        return {name: len(value) for name, value in found.items()}


EVERYTHING: Final = ".*"
"""A pattern of permissions that fits all names."""


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
        self.skipped: list[str] = []

    async def _each(
        self, kind: str, items: list[Any], make: Callable[[Any], Awaitable[object]]
    ) -> None:
        """Do something for each item, some of them at once.

        Raises:
            Refusal: Of the first that cannot be, with its name.
        """
        slices = Slices()

        async def one(item: Any) -> None:
            try:
                await make(item)
            except Refusal as refusal:
                name = item.name or getattr(item, "user", "") or getattr(item, "source", "")
                name = name[:SHORTSTR_BYTES_MAX]
                where = f" in vhost '{item.vhost[:SHORTSTR_BYTES_MAX]}'" if item.vhost else ""
                text = f"{kind} '{name}'{where}: {refusal.text}"
                raise Refusal(refusal.kind, text) from None

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

    async def users(self) -> None:
        """Make users, or replace them."""

        async def make(item: UserItem) -> None:
            service = self._service
            scheme, hashed = item.hashing_algorithm, b""
            if item.password_hash:
                hashed = access_checks.decoded_hash(item.password_hash)
            elif item.password:
                salt = service.node.random.bytes(SALT_BYTES)
                scheme, hashed = SHA256, hash_password(item.password.encode(), salt)
            access_checks.check_new_user(item.name, hashed, scheme)
            tags = words(item.tags)
            access_checks.check_tags("user", tags)
            access_checks.check_limits(
                access_checks.OF_USERS, access_checks.USER_LIMITS, item.limits
            )
            await self._change(SetUser(item.name, hashed, scheme, tags, False))
            known = service.machine.users.get(item.name)
            cleared = [] if known is None else [n for n in known.limits if n not in item.limits]
            if item.limits or cleared:
                await self._change(SetUserLimits(item.name, item.limits, cleared))

        await self._each("user", self._given.users, make)

    async def vhosts(self) -> None:
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
                await self._change(SetVhost(item.name, False, properties))

        await self._each("vhost", self._given.vhosts, make)

    async def rights(self) -> None:
        """Give permissions and topic permissions."""
        machine = self._service.machine

        async def make(item: RightItem) -> None:
            await self._change(
                access_checks.check_set_permissions(
                    machine, item.user, item.vhost, item.configure, item.write, item.read
                )
            )

        await self._each("permissions of user", self._given.permissions, make)

    async def parameters(self) -> None:
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
            elif item.component == FEED and item.name == FEED_NAME:
                text = msgspec.json.encode(item.value).decode()
                await self._change(check_feed_value(machine.parameters, item.vhost, text))
            else:
                self.skipped.append(
                    f"parameter '{item.name}' in vhost '{item.vhost}': "
                    f"component {item.component} not found"
                )

        async def make_global(item: ParameterItem) -> None:
            if item.name != INTERNAL_ID:
                text = msgspec.json.encode(item.value).decode()
                await self._change(check_set_global(machine.parameters, item.name, text))

        await self._each("parameter", self._given.parameters, make)
        await self._each("global parameter", self._given.global_parameters, make_global)

    async def policies(self) -> None:
        """Set policies."""
        await self._each("policy", self._given.policies, lambda item: self._policy(item, False))

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

    async def topology(self) -> None:
        """Declare exchanges and queues, then bind; topic permissions need their exchanges."""
        service = self._service
        machine = service.machine

        async def exchange(item: ExchangeItem) -> None:
            if not is_declared(item.name):
                return
            check_exchange_type(item.type)
            request = DeclareExchangeRequest(
                item.name,
                item.type,
                item.durable,
                item.auto_delete,
                item.internal,
                as_table(item.arguments, "its arguments"),
            )
            if item.name not in access_checks.check_vhost(machine, item.vhost).exchanges:
                handle = handle_of(service, LOCAL, item.vhost)
                await changed(service, lambda pending: handle.declare_exchange(request, pending))

        async def queue(item: QueueItem) -> None:
            arguments = as_table(item.arguments, "its arguments")
            if item.type and "x-queue-type" not in arguments:
                arguments["x-queue-type"] = item.type
            request = DeclareQueueRequest(
                item.name, item.durable, False, item.auto_delete, arguments
            )
            if item.name not in access_checks.check_vhost(machine, item.vhost).queues:
                handle = handle_of(service, LOCAL, item.vhost)
                await changed(service, lambda pending: handle.declare_queue(request, pending))

        async def bind(item: BindingItem) -> None:
            if not item.source:
                return
            request = BindRequest(
                item.source,
                item.destination,
                item.destination_type == "exchange",
                item.routing_key,
                as_table(item.arguments, "its arguments"),
            )
            handle = handle_of(service, LOCAL, item.vhost)
            await changed(service, lambda pending: handle.bind(request, pending))

        async def topic(item: RightItem) -> None:
            await self._change(
                access_checks.check_set_topic_permissions(
                    machine, item.user, item.vhost, item.exchange, item.write, item.read
                )
            )

        await self._each("exchange", self._given.exchanges, exchange)
        await self._each("queue", self._given.queues, queue)
        await self._each("binding of exchange", self._given.bindings, bind)
        await self._each("topic permissions of user", self._given.topic_permissions, topic)


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


def words(tags: list[str] | str) -> list[str]:
    """Tags, from a list or a text with commas between them."""
    if isinstance(tags, list):
        return tags
    return [word.strip() for word in tags.split(",") if word.strip()]
