"""A client's view of its vhost: permissions, topology, routes.

Every request of every protocol that touches an exchange or a queue comes through here, so this is
where permissions are checked (R-39).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.limits import ROUTE_STEPS_MAX
from warren.message.envelope import Envelope
from warren.message.facts import MessageFacts
from warren.message.flavours import AMQP091, as_amqp091, envelope_of
from warren.message.properties import MessageProperties, parse_life, plain_life
from warren.metadata import checks
from warren.metadata.commands import Command, DeclareDelayed
from warren.metadata.exchange_checks import check_exchange_type
from warren.metadata.grants import Grants
from warren.metadata.machine import MetadataMachine
from warren.metadata.names import (
    RESERVED_PREFIX,
    SERVER_NAME_RANDOM_BYTES,
    check_length,
    check_reserved,
    clean_name,
    server_name,
)
from warren.metadata.patterns import WORK
from warren.metadata.permissions import CONFIGURE, READ, WRITE
from warren.metadata.policies import EffectiveSettings
from warren.metadata.recent import NO_STORE
from warren.metadata.rows import Lot
from warren.metadata.version_checks import check_known, check_version
from warren.pending import DONE, PendingRequest
from warren.ports import Work
from warren.queue_types import CONSUMER_TIMEOUT, X_CONSUMER_TIMEOUT
from warren.queues.queue import Queue
from warren.queues.traffic import PublishedTraffic
from warren.routing.alternates import ALTERNATE_EXCHANGE
from warren.routing.router import Router, routing_keys
from warren.routing.terms import readable
from warren.sharded_dict import ShardedDict
from warren.versions import (
    CLASSIC_READERS,
    CONSUMER_TIMEOUTS,
    DEAD_LETTERS,
    EXPIRY,
    READER_GROUPS,
)
from warren.vhost.host import VhostHost
from warren.vhost.pending import QueueDeclared, QueueDeleted, Resumable
from warren.vhost.properties import check_targets
from warren.vhost.recent_giving import RecentGiving
from warren.vhost.requests import (
    BindingRequest,
    BindRequest,
    DeclareExchangeRequest,
    DeclareQueueRequest,
    DeleteExchangeRequest,
    DeleteQueueRequest,
    UnbindRequest,
    VhostRequest,
)
from warren.vhost.routes import REPLY_PREFIX, ReplyTarget, Route
from warren.vhost.timeouts import overdue, timed_out
from warren.vhost.topology_changes import Declaring, Deleting, TopologyChange
from warren.vhost.tracing import DELIVERED, PUBLISHED, Redeliveries, TracedRun, Tracer
from warren.wire.amqp091.table import Table

NAME_RANDOM_BYTES: Final = 16
NO_STORE_BYTES: Final = NO_STORE.encode()
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"

BindingCheck = Callable[[MetadataMachine, str, str, str, bool, str, Table, i64], Command | None]
"""`checks.bind` or `checks.unbind`: the command to log, None if nothing is to be done."""


RENEWALS_SHIFT: Final = 40
"""Generations of routes have so many bits below the count of tokens; both only grow."""


@final
class VhostHandle:
    """One client's connection in one vhost.

    Requests for a change are checked first, and refused by raising; what passes is logged, and the
    pending request is told when it is in force. Texts are those of B-07.

    Attributes:
        name: The vhost's.
        identity: By which exclusive queues know the connection; unique in the cluster.
        max_message_bytes: Largest body that may be published.
        traffic: What is published to the vhost on this node, to be counted.
        tracer: Whether what passes is to be told of: `trace_published`, `trace_delivered`.
        acts_as: Whom events name as who changed something.
    """

    def __init__(
        self,
        host: VhostHost,
        name: str,
        router: Router,
        queues: ShardedDict[str, Queue],
        user: str,
        identity: i64,
        impersonates: bool = False,
        trusted: bool = False,
        grants: Grants | None = None,
        acts_as: str = "",
    ) -> None:
        """Let a user in, who was found to be allowed to.

        Args:
            acts_as: Whom events name as who changed something; empty for the user.
            grants: What the user may do by a token; None for what the tables say.
            trusted: Whether it is an operator, who may do everything.
            impersonates: Whether messages may say that they are another user's.
            router: The vhost's.
            queues: Those of the vhost on this node, by name; it follows as they come and go.
        """
        self.name: str = name
        self.identity: i64 = identity
        self.max_message_bytes: i64 = host.max_message_bytes
        self.traffic: PublishedTraffic = host.traffic_of(name)
        self.tracer: Tracer = host.tracer_of(name)
        self.acts_as: str = acts_as or user
        self._host: VhostHost = host
        self._tables: MetadataMachine = host.tables
        self._queues: ShardedDict[str, Queue] = queues
        self._router: Router = router
        self._user: str = user
        self._user_bytes: bytes = user.encode("utf-8", "surrogateescape")
        self._impersonates: bool = impersonates
        self._trusted: bool = trusted
        self._grants: Grants | None = grants
        self._over: bool = False
        self._timeouts: dict[str, i64] | None = None
        """By queues' names: what arguments and policies of each say of its consumers' timeout,"""
        self._timeouts_of: i64 = -1
        """as of this generation of routes, which changes with policies."""

    # Publishing.

    def generation(self) -> i64:
        """Changes whenever a route may have changed, or what the user may do by a token."""
        grants = self._grants
        if grants is None:
            return self._router.generation
        return self._router.generation + (grants.renewals << RENEWALS_SHIFT)

    def expired(self, now_ms: i64) -> bool:
        """Whether the token by which the user came in is over."""
        grants = self._grants
        return grants is not None and grants.expired(now_ms)

    def resolve(self, exchange: str, routing_key: str, mandatory: bool) -> Route:
        """Where messages with this exchange and routing key go.

        Raises:
            Refusal: This user may not publish there, or there is no such exchange.
        """
        self._permit(WRITE, "exchange", exchange)
        self._router.check_publish(exchange)
        route = Route(exchange, routing_key, mandatory, self.generation())
        if self._router.bounds_keys or self._grants is not None:
            route.bounded = self._bounds_topics(exchange)
        if exchange == "" and routing_key.startswith(REPLY_PREFIX):
            host = self._host
            route.reply = host.replies.get((self.name, routing_key))
            if route.reply is None:
                route.reply = host.addressed_reply(self.name, routing_key)
            return route
        router = self._router
        before = router.steps
        route.by_message = router.by_message(exchange)
        route.by_properties = router.needs_properties(exchange)
        if not route.by_message:
            if router.keeps(exchange):
                names = router.route_kept(exchange, [routing_key], None, None, route.keepers)
            else:
                names = router.route(exchange, routing_key)
            if router.steps != before:
                self._searched(before)
            route.queues = self._named(names)
        return route

    def route_message(
        self,
        route: Route,
        facts: MessageFacts,
        headers: Table,
        properties: MessageProperties | None = None,
    ) -> Route:
        """The route of one message by itself: by its headers, CC and BCC among them, or at random.

        Args:
            properties: All of its properties, where the route is `by_properties`.

        Raises:
            Refusal: They are wrong, or a queue would not treat the message as it asks.
        """
        result = Route(route.exchange, route.routing_key, route.mandatory, route.generation)
        keys = [route.routing_key]
        if facts.copies:
            keys = routing_keys(route.routing_key, headers)
            if route.bounded:
                self._check_keys(route.exchange, keys)
        router = self._router
        before = router.steps
        if router.keeps(route.exchange):
            names = router.route_kept(route.exchange, keys, headers, properties, result.keepers)
        elif facts.copies:
            names = router.route_keys(route.exchange, keys, headers, properties)
        else:
            names = router.route(route.exchange, route.routing_key, headers, properties)
        if router.steps != before:
            self._searched(before)
        result.queues = self._named(names)
        check_targets(facts, result.queues, self._tables)
        return result

    def _check_keys(self, exchange: str, keys: list[str]) -> None:
        """Refuse routing keys of a topic exchange that the user may not publish with.

        Raises:
            Refusal: `ACCESS_REFUSED`; or `PRECONDITION_FAILED`, it takes too much to find out.
        """
        before = WORK.steps
        try:
            for key in dict.fromkeys(keys):
                self._check_topic(WRITE, exchange, key)
                if WORK.steps - before > ROUTE_STEPS_MAX:
                    raise Refusal(
                        PRECONDITION_FAILED,
                        f"topic permissions of the message take more than {ROUTE_STEPS_MAX} steps: "
                        "use fewer CC and BCC keys, or patterns with fewer repetitions",
                    )
        finally:
            self._host.budget.spent += WORK.steps - before + len(keys)

    def _searched(self, before: i64) -> None:
        """Have the turn pay for a search, before which all had taken so many steps.

        Raises:
            Refusal: `PRECONDITION_FAILED`, it was given up.
        """
        router = self._router
        self._host.budget.spent += router.steps - before
        if router.gave_up:
            raise Refusal(
                PRECONDITION_FAILED,
                f"routing the message takes more than {ROUTE_STEPS_MAX} steps: use fewer words, "
                "fewer CC and BCC keys, or patterns with fewer wildcards",
            )

    def check_properties(self, facts: MessageFacts, route: Route) -> None:
        """Refuse what this user may not claim or name, and what is not supported.

        Raises:
            Refusal: `PRECONDITION_FAILED`; or `ACCESS_REFUSED`, for the routing key.
        """
        if facts.has_expiration:
            facts.life_ms = plain_life(facts.expiration)
            if facts.life_ms < 0:
                facts.life_ms = parse_life(readable(facts.expiration))
        if route.bounded:
            self._check_keys(route.exchange, [route.routing_key])
        if facts.has_user_id and facts.user_id != self._user_bytes and not self._impersonates:
            claimed = readable(facts.user_id)
            raise Refusal(
                PRECONDITION_FAILED,
                f"user_id property set to '{claimed}' but authenticated user was '{self._user}'",
            )
        if facts.has_expiration:
            check_known(self._tables, EXPIRY)
        check_targets(facts, route.queues, self._tables)

    def notes_keys(self) -> bool:
        """Whether records may have notes, for what a BCC header named, among others."""
        return self._tables.version >= DEAD_LETTERS

    def keeps_leases(self) -> bool:
        """Whether groups of readers may have a checkout again whose lease ran out."""
        return self._tables.version >= READER_GROUPS

    def tables_version(self) -> i64:
        """What changes whenever a queue or a permission does."""
        return self._tables.applied_index

    def queue_lots(self) -> list[Lot]:
        """All queues, in lots."""
        tables = self._tables.vhosts.get(self.name)
        return [] if tables is None else list(tables.queue_rows.lots)

    def may_read(self, queue: str) -> bool:
        """Whether this user may read a queue of that name."""
        try:
            self._permit(READ, "queue", queue)
        except Refusal:
            return False
        return True

    def check_groups(self, classic: bool) -> None:
        """See that all nodes know of groups of readers of classic queues, or of quorum queues'
        groups that are deleted, or take a checkout again.

        Raises:
            Refusal: They do not.
        """
        check_known(self._tables, CLASSIC_READERS if classic else READER_GROUPS)

    def refuses(self, route: Route) -> bool:
        """Whether publishes to this route cannot be taken now, for want of disk space."""
        host = self._host
        if not host.disk_full:
            return False
        for queue in route.queues:
            if host.stores(queue.group_id):
                return True
        return False

    def do_in_parts(self, work: Work) -> None:
        """Have something done from the next turn on: of all that is long, one part a turn."""
        self._host.do_in_parts(work)

    def trace_published(
        self,
        connection: str,
        channel: i64,
        route: Route,
        flavour: i64,
        records: bytes,
        lengths: bytes,
    ) -> None:
        """Tell of messages that were published; asked for while `tracer` is on.

        Args:
            connection: The name of the client's connection.
            records: They back to back, and their sizes as u32 little-endian in `lengths`.
        """
        names = [queue.name for queue in route.queues]
        if route.reply is not None:
            names.append(route.routing_key)
        self._host.trace(
            TracedRun(
                self.name,
                PUBLISHED,
                route.exchange,
                connection,
                channel,
                self._user,
                flavour,
                records,
                lengths,
                names,
                None,
            )
        )

    def trace_delivered(
        self,
        connection: str,
        channel: i64,
        queue: str,
        flavour: i64,
        records: bytes,
        lengths: bytes,
        redeliveries: Redeliveries,
    ) -> None:
        """The same of messages that a queue gave to the client."""
        self._host.trace(
            TracedRun(
                self.name,
                DELIVERED,
                queue,
                connection,
                channel,
                self._user,
                flavour,
                records,
                lengths,
                [],
                redeliveries,
            )
        )

    def keep(self, route: Route, records: list[bytes], flavour: i64 = AMQP091) -> None:
        """Have the exchanges on a route that keep messages keep these, which are of one flavour."""
        if flavour != AMQP091:
            # What exchanges keep is read by all that is bound to them later, and is of one flavour.
            records = [as_amqp091(flavour, record, 0, len(record)) for record in records]
        kept = [record for record in records if is_to_keep(record)]
        if kept:
            for exchange in route.keepers:
                self._host.keep_recent(self.name, exchange, kept)

    def give_recent(self, request: BindRequest, pending: PendingRequest) -> None:
        """Something was bound to an exchange: give it what that keeps, then answer.

        A queue gets the oldest first. An exchange gets the newest first, as RabbitMQ has it, and
        passes on what it can; RabbitMQ closes the connection where that is nothing.
        """
        source = self._tables.exchange(self.name, request.source)
        if source is None or not source.recent:
            pending.succeeded(DONE)
            return
        giving = RecentGiving(self, request, source.recent, pending)
        if not giving.go_on():
            self._host.do_in_parts(giving)

    def kept_targets(self, request: BindRequest, message: Envelope) -> list[Queue]:
        """The queues to which a message goes that was kept for what is bound now."""
        names = [request.destination]
        if request.to_exchange:
            properties = message.properties()
            headers = {} if properties.headers is None else properties.headers
            keys = routing_keys(message.routing_key(), headers)
            names = self._router.route_keys(request.destination, keys, headers, properties)
        found = [self._find(name) for name in names]
        return [queue for queue in found if queue is not None]

    def routing_steps(self) -> i64:
        """What all searches for routes in the vhost have cost so far."""
        return self._router.steps

    # Exchanges and bindings.

    def declare_exchange(self, request: DeclareExchangeRequest, pending: PendingRequest) -> None:
        """Have an exchange, made now if it is not there.

        Raises:
            Refusal: It cannot be, or this user may not have it.
        """
        name = request.name
        if request.passive:
            if name:
                self._see("exchange", name)
            checks.use_exchange(self._tables, self.name, name)
            pending.succeeded(DONE)
            return
        check_exchange_type(request.kind)
        check_length("the name of an exchange", name)
        if name:
            self._permit(CONFIGURE, "exchange", name)
        command = self._exchange_command(request)
        alternate = request.arguments.get(ALTERNATE_EXCHANGE)
        if command is not None and isinstance(alternate, str):
            self._permit(READ, "exchange", name)
            self._permit(WRITE, "exchange", alternate)
        self._submit(command, request, pending)

    def finish_exchange(self, request: DeclareExchangeRequest, pending: PendingRequest) -> None:
        """Check that an exchange of this name, which came first, is the same.

        Raises:
            Refusal: It is another one.
        """
        # There may be none still, if the nodes are gone that it was to keep messages on.
        self._submit(self._exchange_command(request), request, pending)

    def delete_exchange(self, request: DeleteExchangeRequest, pending: PendingRequest) -> None:
        """Have no such exchange; one that is not there is no error.

        Raises:
            Refusal: It may not go, or not by this user.
        """
        name = request.name
        if name and not name.startswith(RESERVED_PREFIX):
            self._permit(CONFIGURE, "exchange", name)
        command = checks.delete_exchange(self._tables, self.name, name, request.if_unused)
        self._submit(command, request, pending)

    def bind(self, request: BindRequest, pending: PendingRequest) -> None:
        """Have a binding, made now if it is not there.

        Raises:
            Refusal: It cannot be, or this user may not have it.
        """
        self._host.flush_recent(self.name, request.source)
        self._change_binding(checks.bind, request, pending)

    def unbind(self, request: UnbindRequest, pending: PendingRequest) -> None:
        """Have no such binding; one that is not there is no error.

        Raises:
            Refusal: It may not go, or not by this user.
        """
        self._change_binding(checks.unbind, request, pending)

    # Queues.

    def declare_queue(self, request: DeclareQueueRequest, pending: PendingRequest) -> None:
        """Have a queue, made now if it is not there; the result is `QueueDeclared`.

        Raises:
            Refusal: It cannot be, or this user may not have it.
        """
        if request.passive or request.name.startswith(REPLY_PREFIX):
            self._declare_passively(request, pending)
            return
        request.arguments = checks.with_queue_type(
            self._tables,
            self.name,
            request.durable,
            request.exclusive,
            request.auto_delete,
            request.arguments,
            self._host.default_queue_type,
        )
        named_by_server = request.name == ""
        if named_by_server:
            checks.server_named(request.arguments)
            request.name = server_name(self._host.random_bytes(SERVER_NAME_RANDOM_BYTES))
        else:
            check_reserved("queue", request.name)
            check_length("the name of a queue", request.name)
        self._permit(CONFIGURE, "queue", request.name)
        dead_letters = request.arguments.get(DEAD_LETTER_EXCHANGE)
        if isinstance(dead_letters, str) and self._tables.queue(self.name, request.name) is None:
            self._permit(READ, "queue", request.name)
            self._permit(WRITE, "exchange", dead_letters)
        command = self._queue_command(request, named_by_server)
        if command is None:
            self._declared(request.name, pending)
        else:
            self._submit(command, request, pending)

    def finish_declare(
        self, request: DeclareQueueRequest, created: bool, pending: PendingRequest
    ) -> None:
        """Go on with a declare that is durable; if a queue of this name came first, check it.

        Raises:
            Refusal: Another client's queue came first, or it cannot be reached.
        """
        if self._over and request.exclusive:
            # It took so long that its connection has gone.
            self._host.delete_owned(self.name, self.identity)
            return
        if not created:
            # Its rights may have gone meanwhile, with the whole vhost even.
            self._permit(CONFIGURE, "queue", request.name)
            command = self._queue_command(request, True)
            if command is not None:
                # It was deleted again before this node heard of it, all in one snapshot, or the
                # nodes that it was to have members on are gone.
                self._submit(command, request, pending)
                return
        self._declared(request.name, pending)

    def delete_queue(self, request: DeleteQueueRequest, pending: PendingRequest) -> None:
        """Have no such queue; one that is not there is no error. The result is `QueueDeleted`.

        Raises:
            Refusal: It may not go, or not by this user, or it cannot be reached.
        """
        name = request.name
        self._permit(CONFIGURE, "queue", name)
        command = checks.delete_queue(
            self._tables, self.name, name, request.if_unused, request.if_empty, self.identity
        )
        if command is None:
            pending.succeeded(QueueDeleted(0))
            return
        change = TopologyChange(self, request, pending)
        queue = self._find(name)
        halted = queue is not None and self._host.halts(queue.group_id)
        if halted and not request.if_unused and not request.if_empty:
            # Nobody knows what it holds, and it is to go whatever that is.
            queue = None
        if queue is None:
            self._host.submit(command, change)
        else:
            queue.check_usable()
            queue.count(Deleting(self, request, queue, command, change))

    def finish_delete(self, command: Command, change: TopologyChange) -> None:
        """Delete a queue that was counted, and may go."""
        self._host.submit(command, change)

    def check_deletable(self, request: DeleteQueueRequest, queue: Queue) -> None:
        """Refuse to delete what has consumers or messages, if the client wants that.

        Raises:
            Refusal: `PRECONDITION_FAILED`.
        """
        record = self._tables.queue(self.name, queue.name)
        assert record is not None
        if request.if_unused and queue.consumer_count() > 0:
            raise checks.in_use(record)
        if request.if_empty and queue.ready_count() > 0:
            raise checks.not_empty(record)

    def queue_for(self, name: str, permission: str) -> Queue:
        """A queue that this user and this connection may use.

        Args:
            name: Taken as it is: line breaks are cut from the names of topology alone.

        Raises:
            Refusal: It is not there, there is no permission, or it is another connection's.
        """
        self._permit(permission, "queue", name)
        checks.use_queue(self._tables, self.name, name, self.identity)
        queue = self._queue(name)
        queue.check_usable()
        return queue

    def table_elsewhere(self, name: str) -> str:
        """The node where a classic queue is that can be read as a table there; empty for others.

        Raises:
            Refusal: As above, but for a queue that cannot be reached.
        """
        self._permit("read", "queue", name)
        checks.use_queue(self._tables, self.name, name, self.identity)
        record = self._tables.queue(self.name, name)
        assert record is not None, "it is used"
        if record.type.replicated or not record.durable or record.node == self._host.node_name:
            return ""
        return record.node

    def queue_to_poll(self, name: str) -> Queue:
        """The same where one message at a time is asked for.

        Raises:
            Refusal: As above, or it gives messages to one consumer only.
        """
        queue = self.queue_for(name, "read")
        record = self._tables.queue(self.name, name)
        assert record is not None, "it is used"
        checks.check_polls(record)
        return queue

    def consumer_timeout(self, queue: Queue, given_ms: i64) -> i64:
        """How long a message of a queue may be held, in milliseconds; negative for ever.

        Args:
            given_ms: What a consumer asks for, before all else (CT-04); negative if it does not.

        Raises:
            Refusal: Not all nodes of the cluster know of that.
        """
        if X_CONSUMER_TIMEOUT not in queue.type.consumer_arguments:
            return -1
        if given_ms >= 0:
            check_known(self._tables, CONSUMER_TIMEOUTS)
            return given_ms
        if self._tables.version < CONSUMER_TIMEOUTS:
            return -1
        if self._timeouts is None or self._timeouts_of != self._router.generation:
            self._timeouts_of = self._router.generation
            self._timeouts = {}
        found = self._timeouts.get(queue.name)
        if found is None:
            found = self._host.consumer_timeout_ms
            tables = self._tables.vhosts.get(self.name)
            record = self._tables.queue(self.name, queue.name)
            if tables is not None and record is not None:
                said = EffectiveSettings(tables, record.name, record.kind, record.arguments)
                found = said.number(CONSUMER_TIMEOUT, found)
            self._timeouts[queue.name] = found
        return found

    # Names and replies.

    def new_name(self, prefix: str) -> str:
        """A name that cannot be guessed: sixteen random bytes after a prefix."""
        unique = urlsafe_b64encode(self._host.random_bytes(NAME_RANDOM_BYTES)).decode()
        return prefix + unique.rstrip("=")

    def reply_address(self) -> str:
        """A new address for direct replies, which cannot be guessed and says what node it is of."""
        return self._host.reply_address()

    def register_reply(self, address: str, target: ReplyTarget) -> None:
        """Have direct replies to an address go to a channel."""
        self._host.replies[(self.name, address)] = target

    def forget_reply(self, address: str) -> None:
        """Drop a reply address, and the routes that remember it."""
        self._host.replies.pop((self.name, address), None)
        self._router.generation += 1

    # Waiting.

    def timed_out(self, request: VhostRequest, pending: PendingRequest) -> Refusal:
        """Give a request up if that can still be, and say what there is no majority for."""
        host = self._host
        host.withdraw(pending)
        text = overdue(request, self.name, host.node_name)
        return timed_out(text, host.majority_missing(None))

    def use_timed_out(self, text: str, queue: Queue | None) -> Refusal:
        """The refusal of something else that has waited too long, for a queue or for the tables.

        Args:
            text: What was not done in time.
        """
        record = None if queue is None else self._tables.queue(self.name, queue.name)
        return timed_out(text, self._host.majority_missing(record))

    def without_majority(self, queues: list[Queue]) -> Queue | None:
        """The first of some queues without a leader; None if all have one, or need none."""
        for queue in queues:
            record = self._tables.queue(self.name, queue.name)
            if record is not None and record.type.replicated:
                if self._host.majority_missing(record):
                    return queue
        return None

    def removing(self) -> bool:
        """Whether any queue is about to go because its consumers or its connection went."""
        return self._host.removing()

    def after_removal(self, queue: str, waiting: Resumable) -> bool:
        """Whether a queue is about to go; if so, `waiting` goes on when it is gone."""
        return self._host.after_removal(self.name, clean_name(queue), waiting)

    def after_unbinding(self, exchange: str, waiting: Resumable) -> bool:
        """Whether such a queue may take an exchange along; if so, `waiting` goes on then."""
        return self._host.after_unbinding(self.name, clean_name(exchange), waiting)

    def open_channel(self) -> None:
        """Count one more channel of the user, which is to be said again when it is closed.

        Raises:
            Refusal: `NOT_ALLOWED`, the user has as many as it may.
        """
        self._host.channel_opened(self._user)

    def close_channel(self) -> None:
        """Count one channel of the user less."""
        self._host.channel_closed(self._user)

    def closed(self) -> None:
        """Let the exclusive queues go with their connection, which is over (DUR-12)."""
        self._over = True
        self._host.left(self._user, self.name)
        self._host.delete_owned(self.name, self.identity)

    def _permit(self, permission: str, what: str, name: str) -> None:
        grants = self._grants
        if grants is not None:
            grants.check_resource(self.name, permission, what, name)
        elif not self._trusted:
            self._host.authority.check_resource(self._user, self.name, permission, what, name)

    def _see(self, what: str, name: str) -> None:
        grants = self._grants
        if grants is not None:
            grants.check_seen(self.name, what, name)
        elif not self._trusted:
            self._host.authority.check_seen(self._user, self.name, what, name)

    def _bounds_topics(self, exchange: str) -> bool:
        """Whether each routing key of an exchange has to be looked at."""
        if self._grants is None:
            return self._host.authority.bounds_topics(self._user, self.name, exchange)
        record = self._tables.exchange(self.name, exchange)
        return record is not None and record.kind == "topic"

    def _check_topic(self, permission: str, exchange: str, routing_key: str) -> None:
        grants = self._grants
        if grants is not None:
            if self._bounds_topics(exchange):
                grants.check_topic(self.name, permission, exchange, routing_key)
        elif not self._trusted:
            self._host.authority.check_topic(
                self._user, self.name, permission, exchange, routing_key
            )

    def _change_binding(
        self, check: BindingCheck, request: BindingRequest, pending: PendingRequest
    ) -> None:
        destination = request.destination
        check_length("a routing key", request.routing_key)
        self._permit(WRITE, "exchange" if request.to_exchange else "queue", destination)
        if request.source and (destination or not request.to_exchange):
            self._permit(READ, "exchange", request.source)
            self._check_topic(READ, request.source, request.routing_key)
        command = check(
            self._tables,
            self.name,
            request.source,
            destination,
            request.to_exchange,
            request.routing_key,
            request.arguments,
            self.identity,
        )
        self._submit(command, request, pending)

    def _named(self, names: list[str]) -> list[Queue]:
        queues = self._queues
        found: list[Queue] = []
        for name in names:
            queue = queues.get(name)
            found.append(self._queue(name) if queue is None else queue)
        return found

    def _find(self, name: str) -> Queue | None:
        """A queue, as it is on this node; None if there is none in the vhost."""
        queue = self._queues.get(name)
        return self._host.use(self.name, name) if queue is None else queue

    def _queue(self, name: str) -> Queue:
        """A queue of which it was found that it is there."""
        queue = self._find(name)
        assert queue is not None, "the tables have this queue"
        return queue

    def _check_there(self) -> None:
        """Check that the vhost is there: it may have gone while a declare was under way.

        Raises:
            Refusal: It is gone.
        """
        if self.name not in self._tables.vhosts:
            raise Refusal(NOT_FOUND, f"vhost '{self.name}' does not exist")

    def _exchange_command(self, request: DeclareExchangeRequest) -> Command | None:
        self._check_there()
        command = checks.declare_exchange(
            self._tables,
            self.name,
            request.name,
            request.kind,
            request.durable,
            request.auto_delete,
            request.internal,
            request.arguments,
        )
        if command is not None:
            check_version(self._tables, command)
        if isinstance(command, DeclareDelayed):
            command.group_id = self._host.new_group()
            store = command.store()
            self._host.place(store)
            command.node = store.node
            command.members = store.members
        return command

    def _queue_command(self, request: DeclareQueueRequest, named_by_server: bool) -> Command | None:
        self._check_there()
        command = checks.declare_queue(
            self._tables,
            self.name,
            request.name,
            request.durable,
            request.exclusive,
            request.auto_delete,
            request.arguments,
            self.identity,
            # One is taken where there is something to create: a life has only so many.
            0,
            named_by_server,
            self._host.node_name,
            self._host.relaxed_declares,
        )
        if command is not None:
            check_version(self._tables, command)
            # The client's turn pays for what policies say. It is remembered until the queue begins.
            EffectiveSettings(self._tables.vhosts[self.name], command.name, command.kind)
            command.group_id = self._host.new_group()
            self._host.place(command)
        return command

    def _declare_passively(self, request: DeclareQueueRequest, pending: PendingRequest) -> None:
        name = request.name
        if name.startswith(REPLY_PREFIX):
            if name != REPLY_PREFIX and (self.name, name) not in self._host.replies:
                refusal = Refusal(NOT_FOUND, f"no queue '{name}' in vhost '{self.name}'")
                if self._host.seek_reply(self.name, name, refusal, pending):
                    return
                raise refusal
            pending.succeeded(QueueDeclared(name, 0, 1))
            return
        self._see("queue", name)
        checks.use_queue(self._tables, self.name, name, self.identity)
        self._declared(name, pending)

    def _declared(self, name: str, pending: PendingRequest) -> None:
        queue = self._queue(name)
        queue.check_usable()
        queue.count(Declaring(queue, pending))

    def _submit(
        self, command: Command | None, request: VhostRequest, pending: PendingRequest
    ) -> None:
        if command is None:
            pending.succeeded(DONE)
        else:
            self._host.submit(command, TopologyChange(self, request, pending))


def is_to_keep(record: bytes) -> bool:
    """Whether the headers of a message of AMQP 0-9-1 do not say that no exchange is to keep it."""
    if NO_STORE_BYTES not in record:
        return True
    headers = envelope_of(AMQP091, record, 0, len(record)).properties().headers
    return headers is None or headers.get(NO_STORE) is not True
