"""What definitions say, item by item, as RabbitMQ's releases have written it.

Fields that say how something did, or that only a later release knows, are passed over.
"""

from __future__ import annotations

from typing import Any

import msgspec

from warren.admin.service.slices import Slices
from warren.errors import PRECONDITION_FAILED, Refusal
from warren.metadata.passwords import MD5, SHA256

OF_CLUSTERS = ("users", "vhosts", "permissions", "topic_permissions", "global_parameters")
"""What the definitions of one vhost say nothing of."""
KINDS = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters"),
    *("policies", "queues", "exchanges", "bindings"),
)
"""What definitions have lists of."""
VERSIONS = ("rabbitmq_version", "rabbit_version")
"""Where definitions say which release wrote them; the first counts."""
FAULTS_SHOWN_MAX = 20
"""Of all that is wrong with definitions, as one text has it."""
FAULT_CHARACTERS_MAX = 1_000


class Faults:
    """All that is wrong with definitions."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._kinds: set[str] = set()
        self._count = 0

    @property
    def any(self) -> bool:
        """Whether something is wrong."""
        return self._count > 0

    def add(self, kind: str, text: str) -> None:
        """Note what is wrong with one item."""
        self._count += 1
        self._kinds.add(kind)
        if self._count <= FAULTS_SHOWN_MAX:
            self._texts.append(text[:FAULT_CHARACTERS_MAX])

    def check(self) -> None:
        """Refuse, if anything is wrong.

        Raises:
            Refusal: It says what, item by item.
        """
        if not self._count:
            return
        kind = self._kinds.pop() if len(self._kinds) == 1 else PRECONDITION_FAILED
        text = "; ".join(self._texts)
        if self._count > FAULTS_SHOWN_MAX:
            text += f"; and {self._count - FAULTS_SHOWN_MAX} more that cannot be"
        raise Refusal(kind, text)


class _Item(msgspec.Struct, kw_only=True):
    """Anything with a name, in a vhost or not."""

    name: str = ""
    vhost: str = ""


class RightsItem(msgspec.Struct, kw_only=True):
    """What a user may do in one vhost, as users have it beside their names."""

    configure: str
    write: str
    read: str


class UserItem(_Item, kw_only=True):
    """A user; `tags` is a list, or words with commas between them.

    Attributes:
        administrator: What releases before tags said in their place.
        permissions: By vhost, of a user who is new.
    """

    password_hash: str | None = None
    password: str | None = None
    hashing_algorithm: str | None = None
    tags: list[str] | str | None = None
    administrator: bool | None = None
    limits: dict[str, Any] = {}
    permissions: dict[str, RightsItem] = {}


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
    tracing: bool | None = None
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
    """What definitions say, each kind as a list of items."""

    def __init__(self) -> None:
        self.users: list[UserItem] = []
        self.vhosts: list[VhostItem] = []
        self.permissions: list[RightItem] = []
        self.topic_permissions: list[RightItem] = []
        self.parameters: list[ParameterItem] = []
        self.global_parameters: list[ParameterItem] = []
        self.policies: list[PolicyItem] = []
        self.queues: list[QueueItem] = []
        self.exchanges: list[ExchangeItem] = []
        self.bindings: list[BindingItem] = []

    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        return {kind: len(getattr(self, kind)) for kind in KINDS}


SHAPES: dict[str, Any] = {
    "users": UserItem,
    "vhosts": VhostItem,
    "permissions": RightItem,
    "topic_permissions": RightItem,
    "parameters": ParameterItem,
    "global_parameters": ParameterItem,
    "policies": PolicyItem,
    "queues": QueueItem,
    "exchanges": ExchangeItem,
    "bindings": BindingItem,
}


async def read_items(definitions: dict[str, Any], vhost: str) -> Given:
    """Look at all of the definitions, in slices.

    Args:
        vhost: The only one that they are of: what an item says of its vhost does not count, and
            neither does what is of no vhost. Empty for definitions of a cluster.

    Raises:
        Refusal: Something of them has no such shape; says all that is so.
    """
    given = Given()
    faults = Faults()
    slices = Slices()
    for kind in KINDS:
        if vhost and kind in OF_CLUSTERS:
            continue
        rows = definitions.get(kind)
        if not isinstance(rows, list):
            if rows is not None:
                faults.add(PRECONDITION_FAILED, f"{kind} of the definitions: a list is expected")
            continue
        items = getattr(given, kind)
        for at, row in enumerate(rows):
            try:
                item = msgspec.convert(row, SHAPES[kind])
            except msgspec.ValidationError as error:
                faults.add(PRECONDITION_FAILED, f"{kind} of the definitions: {_placed(error, at)}")
            else:
                if vhost:
                    item.vhost = vhost
                items.append(item)
            await slices.breathe()
    _date(given, definitions)
    faults.check()
    return given


def _placed(error: msgspec.ValidationError, at: int) -> str:
    """What is wrong with an item, and where in its list it stands."""
    text = str(error)
    before, found, path = text.rpartition(" - at `$")
    return f"{before} - at `$[{at}]{path}" if found else f"{text} - at `$[{at}]`"


def _date(given: Given, definitions: dict[str, Any]) -> None:
    """Say of hashes that say nothing themselves how the release made them that wrote them."""
    said = next((definitions[name] for name in VERSIONS if definitions.get(name)), "")
    scheme = MD5 if before_3_6(str(said)) else SHA256
    for user in given.users:
        if user.hashing_algorithm is None:
            user.hashing_algorithm = scheme


def before_3_6(version: str) -> bool:
    """Whether a text names a release of RabbitMQ from before 3.6, which has other hashes."""
    parts = version.split(".")
    if len(parts) < 2 or not all(part.isdecimal() and len(part) < 6 for part in parts[:2]):
        return False
    return (int(parts[0]), int(parts[1])) < (3, 6)
