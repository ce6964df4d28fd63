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
from typing import Final, final

from mypy_extensions import i64

from warren.errors import BrokerError
from warren.message.properties import MessageProperties
from warren.metadata import commands
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome
from warren.metadata.plain_tables import as_table
from warren.metadata.policies import chosen
from warren.metadata.tables import PolicyRecord, QueueRecord, VhostRecord
from warren.node.feeds import Feeds
from warren.node.loop import Loop
from warren.node.own_messages import OwnMessages
from warren.ports import Work
from warren.protocols.facts import ConnectionFacts, ConsumerFacts
from warren.routing.terms import term, type_name
from warren.wire.amqp091.table import Table, Value

EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
TURN_EVENTS: Final = 256
"""So many are told of in one turn: some milliseconds."""
WAITING_MAX: Final = 16_384
"""Of what happens while so many wait, nothing is told."""

NO_CONSUMER: Final = -1

CHANGES_MAX: Final = 64
"""So many changes of policies wait until the queues they are about are told of."""


@final
class NodeEvent:
    """One event.

    Attributes:
        key: The routing key.
        at_ms: When it happened, in milliseconds since the epoch.
    """

    def __init__(self, key: str, headers: Table, at_ms: int) -> None:
        self.key: str = key
        self.headers: Table = headers
        self.at_ms: int = at_ms


@final
class NodeEvents(Work):
    """Those of one node.

    Attributes:
        missed: How many were not told of, because too many waited.
    """

    def __init__(
        self, loop: Loop, metadata: MetadataMachine, messages: OwnMessages, feeds: Feeds
    ) -> None:
        self.missed: i64 = 0
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._messages: OwnMessages = messages
        self._feeds: Feeds = feeds
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
        if self._feeds.on():
            if not vhost:
                named = headers.get("name" if key.startswith("vhost.") else "vhost")
                vhost = named if isinstance(named, str) else ""
            told = headers
            if consumer_id != NO_CONSUMER:
                told = {**headers, "consumer_id": int(consumer_id)}
            self._feeds.life_cycle(vhost, key, told)
            if not self.exchange_on():
                return
        if len(self._waiting) >= WAITING_MAX:
            self._miss()
            return
        self._waiting.append(NodeEvent(key, headers, self._loop.wall_ms()))
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
        waiting = self._waiting
        for _ in range(min(TURN_EVENTS, len(waiting))):
            event = waiting.popleft()
            if not self._messages.wanted(self._vhost, EVENT_EXCHANGE, event.key):
                continue
            headers = event.headers
            headers["timestamp_in_ms"] = event.at_ms
            properties = MessageProperties(
                headers=headers, persistent=True, timestamp_ms=event.at_ms
            )
            self._messages.publish(self._vhost, EVENT_EXCHANGE, event.key, properties, b"")
        if waiting:
            return False
        self._at_work = False
        self._says_missed = False
        return True

    # What happens to clients, and to the node.

    def connection(self, key: str, facts: ConnectionFacts, user: str, vhost: str) -> None:
        """A connection was opened or closed."""
        name = f"{facts.peer_host}:{facts.peer_port} -> {facts.host}:{facts.port}"
        headers: Table = {
            "name": name,
            "node": self._node,
            "client_properties": arguments_of(facts.client_properties),
        }
        given = facts.client_properties.get("connection_name")
        if isinstance(given, str):
            headers["user_provided_name"] = given
        if key == "connection.created":
            more: Table = {
                "user": user,
                "user_who_performed_action": user,
                "vhost": vhost,
                "auth_mechanism": facts.mechanism,
                "protocol": "{0,9,1}",
                "type": "network",
                "ssl": facts.encrypted,
                "host": facts.host,
                "port": int(facts.port),
                "peer_host": facts.peer_host,
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
                "user_who_performed_action": user,
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
            "user_who_performed_action": user,
        }
        if begun:
            headers["exclusive"] = consumer.exclusive
            headers["ack_required"] = consumer.ack_required
            headers["prefetch_count"] = int(consumer.prefetch)
            headers["arguments"] = arguments_of(consumer.arguments)
        key = "consumer.created" if begun else "consumer.deleted"
        self.add(key, headers, vhost, consumer.consumer_id)

    def login(self, user: str, host: str, succeeded: bool) -> None:
        """A client has said who it is."""
        headers: Table = {"name": user, "connection_type": "network", "peer_host": host}
        if not succeeded:
            headers["error"] = f"user '{user}' - invalid credentials"
        self.add(f"user.authentication.{'success' if succeeded else 'failure'}", headers)

    def alarm(self, source: str, raised: bool) -> None:
        """The node got short of something, or has enough again."""
        key = "alarm.set" if raised else "alarm.cleared"
        self.add(key, {"source": source, "node": self._node})

    # Changes of the tables.

    def changed(self, command: commands.Command, outcome: Outcome) -> None:
        """A change that was asked of this node is in force."""
        created = outcome.created_queue
        if created is not None:
            self.add(
                "queue.created",
                {
                    "name": created.name,
                    "vhost": created.vhost,
                    "type": f"rabbit_{created.type.name}_queue",
                    "durable": created.durable,
                    "auto_delete": created.auto_delete,
                    "exclusive": created.exclusive_owner != 0,
                    "arguments": arguments_of(created.arguments),
                },
            )
        self.cascaded(outcome)
        if outcome.changed:
            self._changed_topology(command)
            self._changed_access(command, outcome)
            self._changed_parameters(command, outcome)

    def cascaded(self, outcome: Outcome) -> None:
        """Queues and exchanges have gone, with others or by themselves."""
        for queue in outcome.deleted_queues:
            headers: Table = {"name": queue.name, "vhost": queue.vhost}
            headers["type"] = f"rabbit_{queue.type.name}_queue"
            self.add("queue.deleted", headers)
        for exchange in outcome.deleted_exchanges:
            self.add("exchange.deleted", {"name": exchange.name, "vhost": exchange.vhost})

    def _changed_topology(self, command: commands.Command) -> None:
        if isinstance(command, commands.DeclareExchange):
            self.add(
                "exchange.created",
                {
                    "name": command.name,
                    "vhost": command.vhost,
                    "type": command.kind,
                    "durable": command.durable,
                    "auto_delete": command.auto_delete,
                    "internal": command.internal,
                    "arguments": arguments_of(command.arguments),
                },
            )
        elif isinstance(command, commands.BindingCommand):
            bound = isinstance(command, commands.Bind)
            self.add(
                "binding.created" if bound else "binding.deleted",
                {
                    "vhost": command.vhost,
                    "source_name": command.source,
                    "source_kind": "exchange",
                    "destination_name": command.destination,
                    "destination_kind": "exchange" if command.to_exchange else "queue",
                    "routing_key": command.routing_key,
                    "arguments": arguments_of(command.arguments),
                },
            )
        elif isinstance(command, commands.DeclareVhost):
            self.add("vhost.created", {"name": command.name})
        elif isinstance(command, commands.SetVhost):
            key = "vhost.created" if command.create else "vhost.updated"
            self.add(key, {"name": command.name, **_plain(command.properties)})
        elif isinstance(command, commands.DeleteVhost):
            self.add("vhost.deleted", {"name": command.name})
        elif isinstance(command, commands.SetVhostLimits):
            key = "vhost.limits.set" if command.limits else "vhost.limits.cleared"
            found: Table = {"name": "limits", "vhost": command.vhost}
            for name, most in command.limits.items():
                found[name] = most
            self.add(key, found)

    def _changed_access(self, command: commands.Command, outcome: Outcome) -> None:
        if isinstance(command, commands.SetUser):
            key = "user.created" if outcome.created_user else "user.password.changed"
            self.add(key, {"name": command.name})
            self._tags_set(command.name, command.tags)
        elif isinstance(command, commands.DeleteUser):
            self.add("user.deleted", {"name": command.name})
        elif isinstance(command, commands.SetPassword):
            key = "user.password.changed" if command.password_hash else "user.password.cleared"
            self.add(key, {"name": command.name})
        elif isinstance(command, commands.SetUserTags):
            self._tags_set(command.name, command.tags)
        elif isinstance(command, commands.SetUserLimits):
            found: Table = {"name": "limits", "username": command.name}
            for name, most in command.limits.items():
                found[name] = most
            self.add("user.limits.set" if command.limits else "user.limits.cleared", found)
        elif isinstance(command, commands.SetPermissions):
            rights: Table = {"user": command.user, "vhost": command.vhost}
            rights["configure"] = command.configure
            rights["write"] = command.write
            rights["read"] = command.read
            self.add("permission.created", rights)
        elif isinstance(command, commands.ClearPermissions):
            self.add("permission.deleted", {"user": command.user, "vhost": command.vhost})
        elif isinstance(command, commands.SetTopicPermissions):
            topics: Table = {"user": command.user, "vhost": command.vhost}
            topics["exchange"] = command.exchange
            topics["write"] = command.write
            topics["read"] = command.read
            self.add("topic.permission.created", topics)
        elif isinstance(command, commands.ClearTopicPermissions):
            self.add("topic.permission.deleted", {"user": command.user, "vhost": command.vhost})

    def _tags_set(self, user: str, given: list[str]) -> None:
        tags: list[Value] = []
        tags.extend(given)
        self.add("user.tags.set", {"name": user, "tags": tags})

    def _changed_parameters(self, command: commands.Command, outcome: Outcome) -> None:
        if isinstance(command, commands.SetPolicy):
            rest: Table = {
                "pattern": command.pattern,
                "apply-to": command.apply_to,
                "priority": int(command.priority),
                "definition": _plain(command.definition),
            }
            if command.operator:
                self._parameter("operator_policy", command.name, command.vhost, True, dict(rest))
            self.add("policy.set", {"name": command.name, "vhost": command.vhost, **rest})
            tables = self._metadata.vhosts.get(command.vhost)
            if tables is not None:
                policy = tables.policies_of(command.operator)[command.name]
                self._of_queues(tables, policy, command.operator, rest)
        elif isinstance(command, commands.ClearPolicy):
            if command.operator:
                self._parameter("operator_policy", command.name, command.vhost, False, {})
            key = "operator.policy.cleared" if command.operator else "policy.cleared"
            self.add(key, {"name": command.name, "vhost": command.vhost})
            tables = self._metadata.vhosts.get(command.vhost)
            if tables is not None and outcome.cleared_policy is not None:
                self._of_queues(tables, outcome.cleared_policy, command.operator, None)
        elif isinstance(command, (commands.SetParameter, commands.ClearParameter)):
            is_set = isinstance(command, commands.SetParameter)
            value: Value = None
            if isinstance(command, commands.SetParameter):
                value = _plain({"value": command.value}).get("value")
            self._parameter(command.component, command.name, command.vhost, is_set, value)

    def _parameter(self, component: str, name: str, vhost: str, is_set: bool, value: Value) -> None:
        headers: Table = {"component": component, "name": name}
        if vhost:
            headers["vhost"] = vhost
        if is_set:
            headers["value"] = value
        self.add("parameter.set" if is_set else "parameter.cleared", headers)

    def _of_queues(
        self, tables: VhostRecord, policy: PolicyRecord, operator: bool, said: Table | None
    ) -> None:
        """Have each queue that goes by a policy, or went by one that is gone, told of."""
        if not self._policies.add(PolicyChange(tables, policy, operator, said)):
            self._miss()


@final
class PolicyChange:
    """A policy that was set or cleared.

    Attributes:
        said: What it says; None if it is gone.
    """

    def __init__(
        self, tables: VhostRecord, policy: PolicyRecord, operator: bool, said: Table | None
    ) -> None:
        self.tables: VhostRecord = tables
        self.policy: PolicyRecord = policy
        self.operator: bool = operator
        self.said: Table | None = said


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
                self._tell(queue, change.said)
        if not left:
            self._changes.popleft()
            if self._changes:
                self._left = self._changes[0].tables.queues.keys()
        return not self._changes

    def _tell(self, queue: QueueRecord, said: Table | None) -> None:
        headers: Table = {} if said is None else dict(said)
        headers["name"] = queue.name
        headers["vhost"] = queue.vhost
        headers["type"] = f"rabbit_{queue.type.name}_queue"
        key = "queue.policy.cleared" if said is None else "queue.policy.updated"
        self._events.add(key, headers)


def arguments_of(arguments: Table) -> list[Value]:
    """Arguments as RabbitMQ's events have them: a text for each, in Erlang's terms."""
    found: list[Value] = []
    for name, value in arguments.items():
        found.append(f"{{{term(name)},{type_name(value)},{term(value)}}}")
    return found


def _plain(values: dict[str, object]) -> Table:
    """Values of JSON as a table; those that have no place in one are left out."""
    try:
        return as_table(values, "properties")
    except BrokerError:
        return {}
