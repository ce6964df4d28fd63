"""What happens on a node is told of in the event exchange, as RabbitMQ's plugin has it.

The exchange is `amq.rabbitmq.event` of the default vhost, a topic exchange; events are told of
while it is there, which `rabbitmq-plugins` brings about for the whole cluster. A change of the
tables is told of by the node that it was asked of, all else by the node where it happens. The
routing key names the event; headers say the rest, and the body is empty. Telling follows in later
turns, and is bounded: ten thousand connections that close at once do not hold the node up.

Source: RabbitMQ 4.3, `rabbitmq_event_exchange`; keys and headers as recorded.
"""

from __future__ import annotations

from collections import deque
from ipaddress import ip_address
from typing import Final, final

import msgspec
from mypy_extensions import i64

from warren.errors import BrokerError
from warren.message.properties import MessageProperties
from warren.metadata import commands
from warren.metadata.access import INTERNAL_USER
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome
from warren.metadata.plain_tables import as_table
from warren.metadata.policies import chosen
from warren.metadata.tables import ExchangeRecord, PolicyRecord, QueueRecord, VhostRecord
from warren.metadata.vhosts import PREDECLARED_EXCHANGES, TAGS
from warren.node.feeds import EventFeeds
from warren.node.loop import Loop
from warren.node.own_messages import TURN_COPIES, OwnMessages
from warren.ports import Work
from warren.protocols.facts import ConnectionFacts, ConsumerFacts
from warren.queue_types import DEFAULT
from warren.routing.bindings import Binding
from warren.routing.terms import term, type_name
from warren.wire.amqp091.table import Table, Value

EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
TURN_EVENTS: Final = 256
"""So many are told of in one turn: some milliseconds."""
WAITING_MAX: Final = 16_384
"""Of what happens while so many wait, nothing is told."""

ACTING_USER: Final = "user_who_performed_action"
PROTOCOL: Final = "{0,9,1}"
LIMITS: Final = "limits"
LIMITS_COMPONENT: Final = "vhost-limits"
OPERATOR_COMPONENT: Final = "operator_policy"
GLOBAL_COMPONENT: Final = "global"

NO_CONSUMER: Final = -1

CHANGES_MAX: Final = 64
"""So many changes of policies wait until the queues they are about are told of."""


@final
class NodeEvent:
    """One event.

    Attributes:
        key: The routing key.
        at_ms: When it happened, in milliseconds since the epoch.
        vhost: Where it happened, if the headers do not say that.
        consumer_id: Whom it happened to, for feeds alone.
    """

    def __init__(self, key: str, headers: Table, at_ms: int, vhost: str, consumer_id: i64) -> None:
        self.key: str = key
        self.headers: Table = headers
        self.at_ms: int = at_ms
        self.vhost: str = vhost
        self.consumer_id: i64 = consumer_id


@final
class NodeEvents(Work):
    """Those of one node.

    Attributes:
        missed: How many were not told of, because too many waited.
    """

    def __init__(
        self, loop: Loop, metadata: MetadataMachine, messages: OwnMessages, feeds: EventFeeds
    ) -> None:
        self.missed: i64 = 0
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._messages: OwnMessages = messages
        self._feeds: EventFeeds = feeds
        self._node: str = loop.settings.node_name
        self._vhost: str = loop.settings.default_vhost
        self._waiting: deque[NodeEvent] = deque()
        self._at_work: bool = False
        self._says_missed: bool = False
        self._policies: PolicyQueues = PolicyQueues(loop, self)

    def on(self) -> bool:
        """Whether anybody wants to know what happens: an event exchange, or a feed."""
        return self._feeds.on() or self.exchange_on()

    def exchange_on(self) -> bool:
        """Whether there is an event exchange."""
        tables = self._metadata.vhosts.get(self._vhost)
        return tables is not None and EVENT_EXCHANGE in tables.exchanges

    def waiting(self) -> i64:
        """How many are yet to be told of."""
        return len(self._waiting)

    def add(
        self, key: str, headers: Table, vhost: str = "", consumer_id: i64 = NO_CONSUMER
    ) -> None:
        """Have something told of; asked for while `on`.

        Args:
            vhost: Where it happened, if the headers do not say that.
            consumer_id: Whom it happened to, for feeds alone.
        """
        if len(self._waiting) >= WAITING_MAX:
            self._miss()
            return
        at_ms = self._loop.wall_ms()
        self._waiting.append(NodeEvent(key, headers, at_ms, vhost, consumer_id))
        if not self._at_work:
            self._at_work = True
            self._loop.do_in_parts(self)

    def _miss(self) -> None:
        self.missed += 1
        if not self._says_missed:
            self._says_missed = True
            self._loop.log_warning(
                f"more happens than can be told of: some is left out of {EVENT_EXCHANGE}"
            )

    def go_on(self) -> bool:
        """Tell of some; whether these were the last."""
        if not self._messages.go_on():
            return False
        waiting = self._waiting
        most = self._messages.copies + TURN_COPIES
        for _ in range(min(TURN_EVENTS, len(waiting))):
            if self._messages.copies >= most or not self._messages.takes():
                break
            event = waiting.popleft()
            if self._feeds.on():
                self._tell_feed(event)
            if not self._messages.wanted(self._vhost, EVENT_EXCHANGE, event.key):
                continue
            headers = event.headers
            headers["timestamp_in_ms"] = event.at_ms
            properties = MessageProperties(
                headers=headers, persistent=True, timestamp_ms=event.at_ms
            )
            self._messages.publish(self._vhost, EVENT_EXCHANGE, event.key, properties, b"")
        if waiting or not self._messages.takes():
            return False
        self._at_work = False
        self._says_missed = False
        return True

    def _tell_feed(self, event: NodeEvent) -> None:
        """Tell the feed of the vhost that an event is of, if it is of one."""
        headers = event.headers
        vhost = event.vhost
        if not vhost:
            named = headers.get("name" if event.key.startswith("vhost.") else "vhost")
            vhost = named if isinstance(named, str) else ""
        if event.consumer_id != NO_CONSUMER:
            headers = {**headers, "consumer_id": int(event.consumer_id)}
        self._feeds.life_cycle(vhost, event.key, headers, event.at_ms)

    # What happens to clients, and to the node.

    def connection(self, key: str, facts: ConnectionFacts, user: str, vhost: str) -> None:
        """A connection was opened or closed; one that did not come so far is closed, too."""
        headers: Table = {
            "name": _name_of(facts),
            "node": self._node,
            "client_properties": arguments_of(facts.client_properties),
        }
        given = facts.client_properties.get("connection_name")
        if isinstance(given, str):
            headers["user_provided_name"] = given
        if key == "connection.created":
            more: Table = {
                "user": user,
                ACTING_USER: user,
                "vhost": vhost,
                "auth_mechanism": facts.mechanism,
                "protocol": PROTOCOL,
                "type": "network",
                "ssl": facts.encrypted,
                "host": _address(facts.host),
                "port": int(facts.port),
                "peer_host": _address(facts.peer_host),
                "peer_port": int(facts.peer_port),
                "channel_max": int(facts.channel_max),
                "frame_max": int(facts.frame_max),
                "timeout": int(facts.heartbeat_s),
                "connected_at": int(facts.connected_ms),
            }
            headers.update(more)
        self.add(key, headers, vhost)

    def channel(self, key: str, connection: str, number: i64, user: str, vhost: str) -> None:
        """A channel was opened or closed."""
        self.add(
            key,
            {
                "name": f"{connection} ({number})",
                "number": int(number),
                "user": user,
                ACTING_USER: user,
                "vhost": vhost,
            },
        )

    def consumer(
        self,
        connection: str,
        number: i64,
        consumer: ConsumerFacts,
        user: str,
        vhost: str,
        begun: bool,
    ) -> None:
        """A consumer has begun, or is gone."""
        headers: Table = {
            "consumer_tag": consumer.tag,
            "queue": consumer.queue,
            "vhost": vhost,
            "channel": f"{connection} ({number})",
            ACTING_USER: user,
        }
        if begun:
            headers["exclusive"] = consumer.exclusive
            headers["ack_required"] = consumer.ack_required
            headers["prefetch_count"] = int(consumer.prefetch)
            headers["arguments"] = arguments_of(consumer.arguments)
        key = "consumer.created" if begun else "consumer.deleted"
        self.add(key, headers, vhost, consumer.consumer_id)

    def login(self, facts: ConnectionFacts, user: str, problem: str) -> None:
        """A client has said who it is, and may come in if there is no problem."""
        headers: Table = {
            "connection_type": "network",
            "connection_name": _name_of(facts),
            "host": _address(facts.host),
            "peer_host": _address(facts.peer_host),
            "peer_port": int(facts.peer_port),
            "protocol": PROTOCOL,
            "ssl": facts.encrypted,
        }
        if facts.mechanism:
            headers["auth_mechanism"] = facts.mechanism
        if user:
            headers["name"] = user
        if problem:
            headers["error"] = problem
        self.add(f"user.authentication.{'failure' if problem else 'success'}", headers)

    def alarm(self, source: str, raised: bool) -> None:
        """The node got short of something, or has enough again."""
        key = "alarm.set" if raised else "alarm.cleared"
        self.add(key, {"source": source, "node": self._node})

    def drained(self) -> None:
        """The node is put into maintenance: its clients have been let go."""
        for key in ("maintenance.connections.closed", "maintenance.draining"):
            self.add(key, {"reason": "node is being put into maintenance"})

    def revived(self) -> None:
        """Its maintenance is over."""
        self.add("maintenance.revived", {})

    # Changes of the tables.

    def changed(self, command: commands.Command, outcome: Outcome, user: str) -> None:
        """A change that a user asked of this node is in force."""
        created = outcome.created_queue
        if created is not None and not created.type.delays:
            self._queue_created(created, user)
        if isinstance(command, commands.DeleteVhost) and outcome.deleted_vhost is not None:
            self._rights_gone(outcome.deleted_vhost, user)
        tells = outcome.changed and not outcome.repeated
        if tells:
            self._changed_topology(command, user)
        self.cascaded(outcome, user)
        if tells:
            self._changed_access(command, outcome, user)
            self._changed_parameters(command, outcome, user)

    def cascaded(self, outcome: Outcome, user: str) -> None:
        """Bindings, exchanges and queues have gone, with others or by themselves."""
        own: dict[str, list[tuple[str, Binding]]] = {}
        for exchange in outcome.deleted_exchanges:
            own[exchange.name] = []
        for gone in outcome.deleted_bindings:
            of_exchange = own.get(gone[1].source)
            if of_exchange is None:
                self._binding_gone(gone[0], gone[1], user)
            else:
                of_exchange.append(gone)
        for exchange in outcome.deleted_exchanges:
            self._exchange_gone(exchange.vhost, exchange.name, user)
            for gone in own[exchange.name]:
                self._binding_gone(gone[0], gone[1], user)
            own[exchange.name] = []
        for queue in outcome.deleted_queues:
            if queue.type.delays:
                continue
            headers = _named(queue.name, queue.vhost, user)
            headers["type"] = f"rabbit_{queue.type.name}_queue"
            self.add("queue.deleted", headers)
        if outcome.gone_vhost is not None:
            self._vhost_gone(outcome.gone_vhost, user)

    def vhost_down(self, outcome: Outcome) -> None:
        """Tell that this node has nothing of a vhost any more, if that is so."""
        gone = outcome.gone_vhost
        if gone is not None:
            headers: Table = {"name": gone.name, "node": self._node}
            headers[ACTING_USER] = INTERNAL_USER
            self.add("vhost.down", headers)

    def _queue_created(self, queue: QueueRecord, user: str) -> None:
        arguments = dict(queue.arguments)
        arguments["x-queue-type"] = queue.type.name
        headers = _named(queue.name, queue.vhost, user)
        headers["type"] = f"rabbit_{queue.type.name}_queue"
        headers["durable"] = queue.durable
        headers["auto_delete"] = queue.auto_delete
        headers["exclusive"] = queue.exclusive_owner != 0
        headers["arguments"] = arguments_of(arguments)
        if not queue.type.replicated:
            headers["leader"] = queue.node
            headers["members"] = [queue.node]
        self.add("queue.created", headers)

    def _exchange_created(self, exchange: ExchangeRecord, user: str) -> None:
        headers = _named(exchange.name, exchange.vhost, user)
        headers["type"] = exchange.kind
        headers["durable"] = exchange.durable
        headers["auto_delete"] = exchange.auto_delete
        headers["internal"] = exchange.internal
        headers["arguments"] = arguments_of(exchange.arguments)
        self.add("exchange.created", headers)

    def _exchange_gone(self, vhost: str, name: str, user: str) -> None:
        self.add("exchange.deleted", _named(name, vhost, user))

    def _binding_gone(self, vhost: str, binding: Binding, user: str) -> None:
        self.add("binding.deleted", _of_binding(vhost, binding, user))

    def _changed_topology(self, command: commands.Command, user: str) -> None:
        if isinstance(command, (commands.DeclareExchange, commands.DeclareDelayed)):
            exchange = self._metadata.exchange(command.vhost, command.name)
            if exchange is not None:
                self._exchange_created(exchange, user)
        elif isinstance(command, commands.BindingCommand):
            binding = Binding(
                command.source,
                command.destination,
                command.to_exchange,
                command.routing_key,
                command.arguments,
                False,
            )
            bound = isinstance(command, commands.Bind)
            key = "binding.created" if bound else "binding.deleted"
            self.add(key, _of_binding(command.vhost, binding, user))
        elif isinstance(command, commands.DeclareVhost):
            self._vhost_set(command.name, True, user)
        elif isinstance(command, commands.SetVhost):
            if command.create or list(command.properties) != [TAGS]:
                self._vhost_set(command.name, command.create, user)
            else:
                tags = _texts(command.properties[TAGS])
                said: Table = {"name": command.name, "tags": tags, ACTING_USER: user}
                self.add("vhost.tags.set", said)
        elif isinstance(command, commands.SetVhostLimits):
            if command.limits:
                self._limits_set(command, user)
            else:
                self._limits_gone(command.vhost, user)

    # Vhosts.

    def _vhost_set(self, name: str, created: bool, user: str) -> None:
        tables = self._metadata.vhosts.get(name)
        if tables is None:
            return
        headers: Table = {
            "name": name,
            "description": tables.description,
            "tags": _texts(tables.tags),
            "default_queue_type": tables.default_queue_type
            or self._loop.settings.default_queue_type
            or DEFAULT.name,
            "protected_from_deletion": tables.protected,
            "tracing": self._messages.traced(name),
            ACTING_USER: user,
        }
        if not created:
            headers["deletion_protection"] = tables.protected
            self.add("vhost.updated", headers)
            return
        for exchange, _, _ in PREDECLARED_EXCHANGES:
            self._exchange_created(tables.exchanges[exchange], user)
        self.add("vhost.created", headers)

    def _rights_gone(self, tables: VhostRecord, user: str) -> None:
        """A vhost goes: first those who had rights in it lose them."""
        for key, names in (
            ("topic.permission.deleted", list(tables.topic_permissions)),
            ("permission.deleted", list(tables.permissions)),
        ):
            for name in names[:WAITING_MAX]:
                self.add(key, {"user": name, "vhost": tables.name, ACTING_USER: user})

    def _vhost_gone(self, tables: VhostRecord, user: str) -> None:
        """Nothing is left of a vhost but what was said of it."""
        vhost = tables.name
        self._exchange_gone(vhost, "", user)
        if tables.limits:
            self._limits_gone(vhost, user)
        for operator in (True, False):
            for name in list(tables.policies_of(operator))[:WAITING_MAX]:
                self._policy_gone(vhost, name, operator, user)
        self.add("vhost.deleted", {"name": vhost, ACTING_USER: user})

    def _limits_set(self, command: commands.SetVhostLimits, user: str) -> None:
        limits: Table = {}
        for name, most in command.limits.items():
            limits[name] = most
        self._parameter(LIMITS_COMPONENT, LIMITS, command.vhost, True, dict(limits), user)
        limits.update(_named(LIMITS, command.vhost, user))
        self.add("vhost.limits.set", limits)

    def _limits_gone(self, vhost: str, user: str) -> None:
        self._parameter(LIMITS_COMPONENT, LIMITS, vhost, False, None, user)
        self.add("vhost.limits.cleared", _named(LIMITS, vhost, user))

    # Users.

    def _changed_access(self, command: commands.Command, outcome: Outcome, user: str) -> None:
        if isinstance(command, commands.SetUser):
            created = outcome.created_user
            self._of_user(
                "user.created" if created else "user.password.changed", command.name, user
            )
            if command.tags or not created:
                self._tags_set(command.name, command.tags, user)
        elif isinstance(command, commands.DeleteUser):
            self._of_user("user.deleted", command.name, user)
        elif isinstance(command, commands.SetPassword):
            key = "user.password.changed" if command.password_hash else "user.password.cleared"
            self._of_user(key, command.name, user)
        elif isinstance(command, commands.SetUserTags):
            self._tags_set(command.name, command.tags, user)
        elif isinstance(command, commands.SetUserLimits):
            found: Table = {"name": LIMITS, "username": command.name, ACTING_USER: user}
            for name, most in command.limits.items():
                found[name] = most
            self.add("user.limits.set" if command.limits else "user.limits.cleared", found)
        elif isinstance(command, commands.SetPermissions):
            rights = _right(command.user, command.vhost, user)
            rights["configure"] = command.configure
            rights["write"] = command.write
            rights["read"] = command.read
            self.add("permission.created", rights)
        elif isinstance(command, commands.ClearPermissions):
            self.add("permission.deleted", _right(command.user, command.vhost, user))
        elif isinstance(command, commands.SetTopicPermissions):
            topics = _right(command.user, command.vhost, user)
            topics["exchange"] = command.exchange
            topics["write"] = command.write
            topics["read"] = command.read
            self.add("topic.permission.created", topics)
        elif isinstance(command, commands.ClearTopicPermissions):
            self.add("topic.permission.deleted", _right(command.user, command.vhost, user))

    def _of_user(self, key: str, name: str, user: str) -> None:
        self.add(key, {"name": name, ACTING_USER: user})

    def _tags_set(self, name: str, given: list[str], user: str) -> None:
        self.add("user.tags.set", {"name": name, "tags": _texts(given), ACTING_USER: user})

    # Parameters and policies.

    def _changed_parameters(self, command: commands.Command, outcome: Outcome, user: str) -> None:
        if isinstance(command, commands.SetPolicy):
            self._policy_set(command, user)
        elif isinstance(command, commands.ClearPolicy):
            self._policy_gone(command.vhost, command.name, command.operator, user)
            tables = self._metadata.vhosts.get(command.vhost)
            if tables is not None and outcome.cleared_policy is not None:
                said: Table = {ACTING_USER: user}
                self._of_queues(tables, outcome.cleared_policy, command.operator, said, False)
        elif isinstance(command, (commands.SetParameter, commands.ClearParameter)):
            is_set = isinstance(command, commands.SetParameter)
            value: Value = None
            if isinstance(command, commands.SetParameter):
                value = _plain({"value": msgspec.json.decode(command.value)}).get("value")
            component = command.component or GLOBAL_COMPONENT
            self._parameter(component, command.name, command.vhost, is_set, value, user)

    def _policy_set(self, command: commands.SetPolicy, user: str) -> None:
        rest: Table = {
            "pattern": command.pattern,
            "apply-to": command.apply_to,
            "priority": int(command.priority),
            "definition": _plain(command.definition),
        }
        name, vhost = command.name, command.vhost
        if command.operator:
            self._parameter(OPERATOR_COMPONENT, name, vhost, True, dict(rest), user)
        rest[ACTING_USER] = user
        self.add("policy.set", {**_named(name, vhost, user), **rest})
        tables = self._metadata.vhosts.get(vhost)
        if tables is not None:
            policy = tables.policies_of(command.operator)[name]
            self._of_queues(tables, policy, command.operator, rest, True)

    def _policy_gone(self, vhost: str, name: str, operator: bool, user: str) -> None:
        if operator:
            self._parameter(OPERATOR_COMPONENT, name, vhost, False, None, user)
        key = "operator.policy.cleared" if operator else "policy.cleared"
        self.add(key, _named(name, vhost, user))

    def _parameter(
        self, component: str, name: str, vhost: str, is_set: bool, value: Value, user: str
    ) -> None:
        headers: Table = {"component": component, "name": name, ACTING_USER: user}
        if vhost:
            headers["vhost"] = vhost
        if is_set:
            headers["value"] = value
        self.add("parameter.set" if is_set else "parameter.cleared", headers)

    def _of_queues(
        self,
        tables: VhostRecord,
        policy: PolicyRecord,
        operator: bool,
        said: Table,
        is_set: bool,
    ) -> None:
        """Have each queue that goes by a policy, or went by one that is gone, told of."""
        if not self._policies.add(PolicyChange(tables, policy, operator, said, is_set)):
            self._miss()


@final
class PolicyChange:
    """A policy that was set or cleared.

    Attributes:
        said: What it says, and whose doing it is.
        is_set: Whether it is not gone.
    """

    def __init__(
        self,
        tables: VhostRecord,
        policy: PolicyRecord,
        operator: bool,
        said: Table,
        is_set: bool,
    ) -> None:
        self.tables: VhostRecord = tables
        self.policy: PolicyRecord = policy
        self.operator: bool = operator
        self.said: Table = said
        self.is_set: bool = is_set


@final
class PolicyQueues(Work):
    """Tells of the queues that go by policies which were set, or went by those that are gone."""

    def __init__(self, loop: Loop, events: NodeEvents) -> None:
        self._loop: Loop = loop
        self._events: NodeEvents = events
        self._changes: deque[PolicyChange] = deque()
        self._left: list[str] = []
        """Queues of the vhost of the first change that were not looked at."""

    def add(self, change: PolicyChange) -> bool:
        """Have the queues of a policy told of; False if too many changes wait."""
        if len(self._changes) >= CHANGES_MAX:
            return False
        self._changes.append(change)
        if len(self._changes) == 1:
            self._left = change.tables.queues.keys()
            self._loop.do_in_parts(self)
        return True

    def go_on(self) -> bool:
        """Tell of some, as soon as what happened before is told of; whether these were the last."""
        events = self._events
        if not events.on():
            self._changes.clear()
            self._left = []
            return True
        if events.waiting() > TURN_EVENTS:
            return False
        left = self._left
        change = self._changes[0]
        for _ in range(min(TURN_EVENTS, len(left))):
            queue = change.tables.queues.get(left.pop())
            if queue is not None and chosen(change.tables, change.policy, change.operator, queue):
                self._tell(queue, change)
        if not left:
            self._changes.popleft()
            if self._changes:
                self._left = self._changes[0].tables.queues.keys()
        return not self._changes

    def _tell(self, queue: QueueRecord, change: PolicyChange) -> None:
        headers = dict(change.said)
        headers["name"] = queue.name
        headers["vhost"] = queue.vhost
        headers["type"] = f"rabbit_{queue.type.name}_queue"
        key = "queue.policy.updated" if change.is_set else "queue.policy.cleared"
        self._events.add(key, headers)


def _name_of(facts: ConnectionFacts) -> str:
    """The name of a connection."""
    return f"{facts.peer_host}:{facts.peer_port} -> {facts.host}:{facts.port}"


def _address(host: str) -> str:
    """An address as RabbitMQ's events have it: its numbers, in Erlang's terms."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if found.version == 4:
        return "{" + host.replace(".", ",") + "}"
    packed = found.packed
    groups = [str(packed[at] << 8 | packed[at + 1]) for at in range(0, 16, 2)]
    return "{" + ",".join(groups) + "}"


def _named(name: str, vhost: str, user: str) -> Table:
    """What most events of a vhost say."""
    return {"name": name, "vhost": vhost, ACTING_USER: user}


def _right(of: str, vhost: str, user: str) -> Table:
    """What events of a user's rights in a vhost say."""
    return {"user": of, "vhost": vhost, ACTING_USER: user}


def _of_binding(vhost: str, binding: Binding, user: str) -> Table:
    return {
        "vhost": vhost,
        "source_name": binding.source,
        "source_kind": "exchange",
        "destination_name": binding.destination,
        "destination_kind": "exchange" if binding.to_exchange else "queue",
        "routing_key": binding.routing_key,
        "arguments": arguments_of(binding.arguments),
        ACTING_USER: user,
    }


def _texts(given: list[str]) -> list[Value]:
    found: list[Value] = []
    found.extend(given)
    return found


def arguments_of(arguments: Table) -> list[Value]:
    """Arguments as RabbitMQ's events have them, by name: a text for each, in Erlang's terms."""
    found: list[Value] = []
    for name in sorted(arguments):
        value = arguments[name]
        found.append(f"{{{term(name)},{type_name(value)},{term(value)}}}")
    return found


def _plain(values: dict[str, object]) -> Table:
    """Values of JSON as a table; those that have no place in one are left out."""
    try:
        return as_table(values, "properties")
    except BrokerError:
        return {}
