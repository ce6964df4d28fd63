"""Who may do what: every way in against the rights that it takes, and changes of rights.

The table `WAYS` is the whole of it: a request, what it takes, and one test for each right that is
missing. A new method, header or argument that names a queue or an exchange belongs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.node.pair import Client, Pair
from warren.client.table import decode_names
from warren.limits import QUEUES_AT_ONCE_MAX
from warren.metadata import commands
from warren.metadata.commands import Command
from warren.metadata.grants import NEVER, PERMISSIONS, GrantedScope, Grants, TokenVerifier
from warren.metadata.passwords import SHA256, hash_password
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import FLAG_HEADERS, FLAG_REPLY_TO, FLAG_USER_ID
from warren.wire.amqp091.table import Table, encode_table

CONFIGURE, WRITE, READ = "configure", "write", "read"
ALL = ".*"


class Right(NamedTuple):
    """A permission for a queue or an exchange; of topics, for a routing key of an exchange."""

    permission: str
    what: str
    name: str


class Way(NamedTuple):
    """A request, and all that it takes."""

    request: Callable[[Client], spec.Method]
    rights: list[Right]


def properties(headers: Table | None = None, user_id: str = "") -> bytes:
    flags = (FLAG_HEADERS if headers else 0) | (FLAG_USER_ID if user_id else 0)
    data = flags.to_bytes(2, "big")
    if headers:
        table = encode_table(headers)
        data += len(table).to_bytes(4, "big") + table
    if user_id:
        data += bytes([len(user_id)]) + user_id.encode()
    return data


def published(client: Client, exchange: str, key: str, data: bytes = b"\0\0") -> spec.Method:
    """Publish one message, and see whether the channel is still there."""
    method = spec.BasicPublish(0, exchange, key, False, False)
    client.outbox += content_frames(1, method, data, b"x", 131_072)
    return client.call(spec.BasicQos(0, 0, False))


def publish(exchange: str, key: str, headers: Table | None = None) -> Callable[..., spec.Method]:
    return lambda client: published(client, exchange, key, properties(headers))


def transact(client: Client) -> spec.Method:
    client.call(spec.TxSelect())
    return published(client, "e", "k")


def transact_copies(client: Client) -> spec.Method:
    client.call(spec.TxSelect())
    return published(client, "e", "k", properties({"CC": ["theirs"]}))


def consume_replies(client: Client) -> spec.Method:
    return client.call(
        spec.BasicConsume(0, "amq.rabbitmq.reply-to", "", False, True, False, False, {})
    )


def request_a_reply(client: Client) -> spec.Method:
    """Publish what is to be answered to the client itself."""
    consume_replies(client)
    reply_to = b"amq.rabbitmq.reply-to"
    data = FLAG_REPLY_TO.to_bytes(2, "big") + bytes([len(reply_to)]) + reply_to
    return published(client, "e", "k", data)


def ask(method: spec.Method) -> Callable[[Client], spec.Method]:
    return lambda client: client.call(method)


def read_table(client: Client) -> spec.Method:
    # Its answer is content.
    client.send(spec.TableRead(0, "q", 0, 0, 1))
    return client.call(spec.BasicQos(0, 0, False))


def queue(name: str, arguments: Table | None = None) -> spec.QueueDeclare:
    return spec.QueueDeclare(0, name, False, True, False, False, False, arguments or {})


def exchange(name: str, arguments: Table | None = None) -> spec.ExchangeDeclare:
    return spec.ExchangeDeclare(0, name, "topic", False, True, False, False, False, arguments or {})


def delayed(name: str, arguments: Table) -> spec.ExchangeDeclare:
    return spec.ExchangeDeclare(
        0,
        name,
        "x-delayed-message",
        False,
        True,
        False,
        False,
        False,
        {"x-delayed-type": "direct", **arguments},
    )


def of_queue(permission: str, name: str = "q") -> Right:
    return Right(permission, "queue", name)


def of_exchange(permission: str, name: str = "e") -> Right:
    return Right(permission, "exchange", name)


DEAD_LETTERS: Table = {"x-dead-letter-exchange": "dlx"}
ALTERNATE: Table = {"alternate-exchange": "ae"}
BOUND = [of_queue(WRITE), of_exchange(READ)]
LINKED = [of_exchange(WRITE, "f"), of_exchange(READ)]
DEFAULT = of_exchange(WRITE, "amq.default")
READS = [of_queue(READ)]

WAYS: dict[str, Way] = {
    "queue.declare": Way(ask(queue("new")), [of_queue(CONFIGURE, "new")]),
    "queue.declare of one that is there": Way(ask(queue("q")), [of_queue(CONFIGURE)]),
    "queue.declare with dead letters": Way(
        ask(queue("new", DEAD_LETTERS)),
        [of_queue(CONFIGURE, "new"), of_queue(READ, "new"), of_exchange(WRITE, "dlx")],
    ),
    "queue.declare with dead letters by the default exchange": Way(
        ask(queue("new", {"x-dead-letter-exchange": ""})),
        [of_queue(CONFIGURE, "new"), of_queue(READ, "new"), DEFAULT],
    ),
    "queue.declare with dead letters to none": Way(
        ask(queue("new", {"x-dead-letter-exchange": "none"})),
        [of_queue(CONFIGURE, "new"), of_queue(READ, "new"), of_exchange(WRITE, "none")],
    ),
    "queue.declare, exclusive, with dead letters": Way(
        ask(spec.QueueDeclare(0, "new", False, False, True, False, False, DEAD_LETTERS)),
        [of_queue(CONFIGURE, "new"), of_queue(READ, "new"), of_exchange(WRITE, "dlx")],
    ),
    "queue.delete": Way(
        ask(spec.QueueDelete(0, "gone", False, False, False)), [of_queue(CONFIGURE, "gone")]
    ),
    "queue.purge": Way(ask(spec.QueuePurge(0, "q", False)), READS),
    "queue.bind": Way(ask(spec.QueueBind(0, "q", "e", "k", False, {})), BOUND),
    "queue.unbind": Way(ask(spec.QueueUnbind(0, "q", "e", "k", {})), BOUND),
    "exchange.declare": Way(ask(exchange("new")), [of_exchange(CONFIGURE, "new")]),
    "exchange.declare with an alternate": Way(
        ask(exchange("new", ALTERNATE)),
        [
            of_exchange(CONFIGURE, "new"),
            of_exchange(READ, "new"),
            of_exchange(WRITE, "ae"),
        ],
    ),
    "exchange.declare with the default as alternate": Way(
        ask(exchange("new", {"alternate-exchange": ""})),
        [of_exchange(CONFIGURE, "new"), of_exchange(READ, "new"), DEFAULT],
    ),
    "exchange.declare of one that delays, with an alternate": Way(
        ask(delayed("new", ALTERNATE)),
        [
            of_exchange(CONFIGURE, "new"),
            of_exchange(READ, "new"),
            of_exchange(WRITE, "ae"),
        ],
    ),
    "exchange.delete": Way(
        ask(spec.ExchangeDelete(0, "gone", False, False)), [of_exchange(CONFIGURE, "gone")]
    ),
    "exchange.bind": Way(ask(spec.ExchangeBind(0, "f", "e", "k", False, {})), LINKED),
    "exchange.unbind": Way(ask(spec.ExchangeUnbind(0, "f", "e", "k", False, {})), LINKED),
    "basic.publish": Way(publish("e", "k"), [of_exchange(WRITE)]),
    "basic.publish to an exchange that delays": Way(
        publish("later", "k"), [of_exchange(WRITE, "later")]
    ),
    "basic.publish, delayed": Way(
        publish("later", "k", {"x-delay": 60_000}), [of_exchange(WRITE, "later")]
    ),
    "basic.publish, delayed, with CC": Way(
        publish("later", "k", {"x-delay": 60_000, "CC": ["q"]}), [of_exchange(WRITE, "later")]
    ),
    "basic.publish with CC in a transaction": Way(transact_copies, [of_exchange(WRITE)]),
    "basic.publish to a queue": Way(publish("", "q"), [DEFAULT]),
    "basic.publish with CC": Way(publish("", "x", {"CC": ["q"]}), [DEFAULT]),
    "basic.publish with BCC": Way(publish("e", "x", {"BCC": ["q"]}), [of_exchange(WRITE)]),
    "basic.publish in a transaction": Way(transact, [of_exchange(WRITE)]),
    "basic.publish of what is to be replied to": Way(request_a_reply, [of_exchange(WRITE)]),
    "basic.consume of replies": Way(consume_replies, []),
    "basic.publish as a reply": Way(publish("", "amq.rabbitmq.reply-to.x"), [DEFAULT]),
    "basic.consume": Way(ask(spec.BasicConsume(0, "q", "", False, True, False, False, {})), READS),
    "basic.get": Way(ask(spec.BasicGet(0, "q", True)), READS),
    "table.read": Way(read_table, READS),
    "table.status": Way(ask(spec.TableStatus(0, "q", "g")), READS),
    "table.identify": Way(ask(spec.TableIdentify(0, "q")), READS),
    "table.groups": Way(ask(spec.TableGroups(0, "q")), READS),
    "table.held": Way(ask(spec.TableHeld(0, "q", "g")), READS),
    "table.backlog": Way(ask(spec.TableBacklog(0, "q", "g")), READS),
    "table.messages": Way(ask(spec.TableMessages(0, "q", 0, 1, 0, 0)), READS),
    "table.queues": Way(ask(spec.TableQueues(0, 0)), []),
    "table.checkouts": Way(ask(spec.TableCheckouts(0, "q", "g", 0, 1)), READS),
    "table.acquire": Way(ask(spec.TableAcquire(0, "q", "g", 1000)), READS),
    "table.checkout": Way(ask(spec.TableCheckout(0, "q", "g", 1, 0, 0, 1, 1)), READS),
    "table.settle": Way(ask(spec.TableSettle(0, "q", "g", 1, 1)), READS),
    "table.release": Way(ask(spec.TableRelease(0, "q", "g", 1)), READS),
    "table.retake": Way(ask(spec.TableRetake(0, "q", "g", 1, 1)), READS),
    "table.delete": Way(ask(spec.TableDelete(0, "q", "g")), READS),
}
CELLS = [(name, right) for name, way in WAYS.items() for right in way.rights]

TOPICS: dict[str, tuple[Callable[[Client], spec.Method], str, str]] = {
    "basic.publish": (publish("e", "theirs"), WRITE, "theirs"),
    "basic.publish with CC": (publish("e", "mine", {"CC": ["theirs"]}), WRITE, "theirs"),
    "basic.publish with BCC": (publish("e", "mine", {"BCC": ["theirs"]}), WRITE, "theirs"),
    "basic.publish with CC in a transaction": (transact_copies, WRITE, "theirs"),
    "queue.bind": (ask(spec.QueueBind(0, "q", "e", "theirs", False, {})), READ, "theirs"),
    "queue.unbind": (ask(spec.QueueUnbind(0, "q", "e", "theirs", {})), READ, "theirs"),
    "exchange.bind": (ask(spec.ExchangeBind(0, "f", "e", "theirs", False, {})), READ, "theirs"),
    "exchange.unbind": (
        ask(spec.ExchangeUnbind(0, "f", "e", "theirs", False, {})),
        READ,
        "theirs",
    ),
}


class World:
    """One node, with user `u` and what requests need, and the changes of rights."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.node = pair.a.node
        root = pair.a.client()
        for name in ("q", "gone"):
            root.declare(name, kind="quorum")
        for name in ("e", "f", "gone", "ae", "dlx"):
            root.call(exchange(name))
        root.call(delayed("later", {}))
        self.root = root
        self.change(
            commands.SetUser("u", hash_password(b"u", b"salt"), SHA256, [], False),
            commands.SetPermissions("u", "/", ALL, ALL, ALL),
        )

    def change(self, *changes: Command) -> None:
        """Have changes of the tables in force."""
        for command in changes:
            self.node.store.submit(command, None)
        self.pair.until(lambda: self.node.store.in_force)

    def permit(self, *lacking: Right) -> None:
        """Let `u` do everything but this."""
        patterns = {CONFIGURE: ALL, WRITE: ALL, READ: ALL}
        for right in lacking:
            patterns[right.permission] = f"^(?!{right.name}$)"
        self.change(commands.SetPermissions("u", "/", *patterns.values()))

    def client(self, user: str = "u", vhost: str = "/") -> Client:
        return self.pair.a.client(user=user, vhost=vhost)


@pytest.fixture(scope="module")
def shared() -> World:
    return World(Pair(alone=True))


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    """The world with a user who may do everything."""
    shared.permit()
    yield shared
    shared.change(commands.ClearTopicPermissions("u", "/", ""))
    shared.root.call(spec.QueueDelete(0, "new", False, False, False))
    shared.root.call(spec.ExchangeDelete(0, "new", False, False))


def refused(answer: spec.Method) -> str:
    """The text of a channel that is closed for want of rights; empty if it is not."""
    if isinstance(answer, spec.ChannelClose) and answer.reply_code == 403:
        return answer.reply_text.removeprefix("ACCESS_REFUSED - ")
    return ""


def closed(client: Client) -> spec.ConnectionClose:
    """The close that a client is sent."""
    answer = client.methods[-1]
    assert isinstance(answer, spec.ConnectionClose), answer
    return answer


@pytest.mark.parametrize("name", WAYS)
def test_with_all_rights_a_request_is_not_refused(world: World, name: str) -> None:
    client = world.client()
    answer = WAYS[name].request(client)
    assert not refused(answer)
    assert not isinstance(answer, spec.ConnectionClose)
    client.vanish()
    world.pair.settle()


@pytest.mark.parametrize(("name", "right"), CELLS)
def test_each_right_that_is_missing_refuses_a_request(
    world: World, name: str, right: Right
) -> None:
    world.permit(right)
    before = world.node.metadata.snapshot()[:]
    answer = WAYS[name].request(world.client())
    assert refused(answer) == (
        f"{right.permission} access to {right.what} '{right.name}' in vhost '/' "
        "refused for user 'u'"
    )
    assert world.node.metadata.snapshot() == before


def test_queues_are_named_to_those_who_may_read_them(world: World) -> None:
    def named() -> list[str]:
        client = world.client()
        told = client.call(spec.TableQueues(0, 0))
        assert isinstance(told, spec.TableQueuesOk)
        return decode_names(client.rows[-1], told.count)

    everything = named()
    assert "q" in everything
    world.permit(of_queue(READ, "q"))
    assert sorted([*named(), "q"]) == sorted(everything)


def test_what_an_operator_has_messages_do_takes_no_right_of_users(world: World) -> None:
    """A policy's dead-letter and alternate exchanges, and bindings of exchanges that are there."""
    root = world.root
    for name in ("dead", "alternated", "plain"):
        root.declare(name)
    root.call(spec.QueueBind(0, "dead", "dlx", "#", False, {}))
    root.call(spec.QueueBind(0, "alternated", "ae", "#", False, {}))
    root.call(exchange("linked"))
    root.call(spec.ExchangeBind(0, "ae", "linked", "#", False, {}))
    definition = {"dead-letter-exchange": "dlx", "alternate-exchange": "ae"}
    world.change(commands.SetPolicy("/", "p", False, "^(plain|f)$", "all", 0, definition))
    world.change(commands.SetPermissions("u", "/", "", "^(amq.default|f|linked)$", "^plain$"))
    client = world.client()
    for name, key in (("f", "k"), ("linked", "k"), ("", "plain")):
        assert not refused(published(client, name, key))
    got = client.get("plain")
    assert got is not None
    client.send(spec.BasicReject(got.tag, False))
    world.pair.until(lambda: world.pair.a.queue("dead").ready_count() == 1)
    world.pair.until(lambda: world.pair.a.queue("alternated").ready_count() == 2)
    for name in ("dlx", "ae"):
        assert refused(published(world.client(), name, "k"))
    assert refused(world.client().call(spec.BasicGet(0, "dead", True)))
    world.change(commands.ClearPolicy("/", "p", False))
    for name in ("dead", "alternated", "plain"):
        root.call(spec.QueueDelete(0, name, False, False, False))
    root.call(spec.ExchangeDelete(0, "linked", False, False))


@pytest.mark.parametrize("what", ["queue", "exchange"])
def test_any_right_lets_a_client_look_whether_something_is_there(world: World, what: str) -> None:
    name = "q" if what == "queue" else "e"
    look = (
        spec.QueueDeclare(0, name, True, False, False, False, False, {})
        if what == "queue"
        else spec.ExchangeDeclare(0, name, "", True, False, False, False, False, {})
    )
    all_of_them = [Right(permission, what, name) for permission in (CONFIGURE, WRITE, READ)]
    for left in range(3):
        world.permit(*[right for at, right in enumerate(all_of_them) if at != left])
        assert isinstance(world.client().call(look), (spec.QueueDeclareOk, spec.ExchangeDeclareOk))
    world.permit(*all_of_them)
    assert refused(world.client().call(look)) == (
        f"configure access to {what} '{name}' in vhost '/' refused for user 'u'"
    )


@pytest.mark.parametrize("name", TOPICS)
def test_topic_permissions_bound_routing_keys(world: World, name: str) -> None:
    request, permission, key = TOPICS[name]
    world.change(commands.SetTopicPermissions("u", "/", "e", "^(mine|k)$", "^mine$"))
    assert refused(request(world.client())) == (
        f"{permission} access to topic '{key}' in exchange 'e' in vhost '/' refused for user 'u'"
    )
    patterns = ("^(theirs|mine|k)$", "") if permission == WRITE else ("", "^theirs$|^mine$")
    world.change(commands.SetTopicPermissions("u", "/", "e", *patterns))
    assert not refused(request(world.client()))
    world.change(
        commands.SetTopicPermissions("u", "/", "f", "", ""),
        commands.SetTopicPermissions("guest", "/", "e", "", ""),
        commands.ClearTopicPermissions("u", "/", "e"),
    )
    assert not refused(request(world.client()))


def test_topic_permissions_know_the_user_and_the_vhost(world: World) -> None:
    world.change(commands.SetTopicPermissions("u", "/", "e", "^{vhost}{username}$", ALL))
    assert not refused(published(world.client(), "e", "/u"))
    assert refused(published(world.client(), "e", "u"))


@pytest.mark.parametrize("name", ["a.c", ".*", "a+", "(", "x|y", "{vhost}", "a b-c&d~#", "é"])
def test_names_within_topic_permissions_are_no_patterns(world: World, name: str) -> None:
    """Each finds itself and nothing that it would find as a pattern, as with RabbitMQ."""
    world.change(
        commands.SetUser(name, hash_password(name.encode(), b"salt"), SHA256, [], False),
        commands.DeclareVhost(name),
        commands.SetPermissions(name, "/", ALL, ALL, ALL),
        commands.SetTopicPermissions(name, "/", "e", "^{username}$", ALL),
        commands.SetPermissions("u", name, ALL, ALL, ALL),
        commands.SetTopicPermissions("u", name, "amq.topic", "^{vhost}$", ALL),
    )
    for client, exchange in ((world.client(name), "e"), (world.client("u", name), "amq.topic")):
        assert not refused(published(client, exchange, name))
        for key in ("abc", "aa", "x", "/", ""):
            assert refused(published(client, exchange, key))
    world.change(commands.DeleteUser(name), commands.DeleteVhost(name))


def test_rights_that_go_count_for_the_next_message_of_the_same_route(world: World) -> None:
    client = world.client()
    assert not refused(published(client, "e", "k"))
    world.permit(of_exchange(WRITE))
    assert refused(published(client, "e", "k"))
    world.permit()
    assert not refused(published(client, "e", "k"))
    world.change(commands.SetTopicPermissions("u", "/", "e", "", ""))
    assert refused(published(client, "e", "k"))
    world.change(commands.ClearTopicPermissions("u", "/", "e"))
    assert not refused(published(client, "e", "k"))
    world.change(commands.ClearPermissions("u", "/"))
    assert refused(published(client, "e", "k"))
    assert not client.over


@pytest.mark.parametrize("tag", ["", "administrator", "impersonator"])
def test_a_message_says_it_is_another_users_only_with_the_tag_for_it(
    world: World, tag: str
) -> None:
    world.change(commands.SetUserTags("u", [tag] if tag else []))
    client = world.client()
    own = published(client, "e", "k", properties(user_id="u"))
    assert isinstance(own, spec.BasicQosOk)
    answer = published(client, "e", "k", properties(user_id="guest"))
    if tag == "impersonator":
        assert isinstance(answer, spec.BasicQosOk)
    else:
        assert isinstance(answer, spec.ChannelClose)
        assert answer.reply_text == (
            "PRECONDITION_FAILED - user_id property set to 'guest' but authenticated user was 'u'"
        )


def test_a_deleted_user_is_told_so_and_comes_in_no_more(world: World) -> None:
    world.change(
        commands.SetUser("late", hash_password(b"late", b"salt"), SHA256, [], False),
        commands.SetPermissions("late", "/", ALL, ALL, ALL),
        commands.SetTopicPermissions("late", "/", "e", "", ""),
    )
    clients = [world.client("late") for _ in range(3)]
    other = world.client()
    world.change(commands.DeleteUser("late"))
    world.pair.until(lambda: all(client.methods for client in clients))
    for client in clients:
        close = closed(client)
        assert close.reply_code == 320
        assert close.reply_text == "CONNECTION_FORCED - user 'late' is deleted"
    assert not other.methods
    again = world.pair.a.caller(user="late")
    world.pair.settle()
    assert not again.opened
    # Who comes later by that name has none of its rights.
    world.change(commands.SetUser("late", hash_password(b"late", b"salt"), SHA256, [], False))
    again = world.pair.a.caller(user="late")
    world.pair.until(lambda: bool(again.methods))
    assert closed(again).reply_text == ("NOT_ALLOWED - access to vhost '/' refused for user 'late'")
    tables = world.node.metadata.vhosts["/"]
    assert "late" not in tables.permissions and "late" not in tables.topic_permissions


def test_a_password_that_was_changed_counts_from_the_next_login_on(world: World) -> None:
    client = world.client()
    world.change(commands.SetPassword("u", hash_password(b"other", b"salt"), SHA256))
    assert world.node.login("u", "u", "") is None
    assert world.node.login("u", "other", "") is not None
    world.change(commands.SetPassword("u", b"", SHA256))
    assert world.node.login("u", "", "") is None and world.node.login("u", "u", "") is None
    assert isinstance(client.call(spec.BasicQos(0, 0, False)), spec.BasicQosOk)
    world.change(commands.SetPassword("u", hash_password(b"u", b"salt"), SHA256))


def test_vhosts_have_names_of_their_own(world: World) -> None:
    world.change(
        commands.DeclareVhost("v"),
        commands.SetPermissions("u", "v", ALL, ALL, ALL),
    )
    here, there = world.client(), world.client(vhost="v")
    there.declare("q", durable=True)
    there.publish("q", b"there")
    there.call(spec.BasicQos(0, 0, False))
    assert here.get("q") is None
    got = there.get("q")
    assert got is not None and got.body == b"there"
    there.declare("only")
    gone = here.declare("only", passive=True)
    assert isinstance(gone, spec.ChannelClose) and gone.reply_code == 404
    world.permit(of_queue(CONFIGURE, "only"))
    assert isinstance(there.declare("only"), spec.QueueDeclareOk)
    world.change(commands.DeleteVhost("v"))


def test_a_reply_does_not_leave_its_vhost(world: World) -> None:
    world.change(commands.DeclareVhost("v"), commands.SetPermissions("u", "v", ALL, ALL, ALL))
    asking, near, far = world.client(), world.client(), world.client(vhost="v")
    name = "amq.rabbitmq.reply-to"
    asking.call(spec.BasicConsume(0, name, "", False, True, False, False, {}))
    ((_, address),) = world.node.vhosts.replies
    published(far, "", address)
    unknown = far.declare(address, passive=True)
    assert isinstance(unknown, spec.ChannelClose) and unknown.reply_code == 404
    assert not asking.messages
    published(near, "", address)
    assert [got.method.routing_key for got in asking.messages] == [address]
    world.change(commands.DeleteVhost("v"))


def test_a_deleted_vhost_takes_its_clients_and_queues_along(world: World) -> None:
    def make() -> None:
        world.change(
            commands.SetVhost("v", True, {"description": "d"}),
            commands.SetPermissions("u", "v", ALL, ALL, ALL),
        )

    make()
    client = world.client(vhost="v")
    client.declare("own", durable=False, exclusive=True)
    count = 2 * QUEUES_AT_ONCE_MAX + 10
    for number in range(count):
        client.send(queue(f"{number}"))
    world.pair.until(lambda: len(client.methods) > count)
    consumer = world.client(vhost="v")
    consumer.consume("1")
    other = world.client()
    group = int(world.node.queues.vhosts["v"].queues["1"].group_id)
    assert group in world.node.queues.logged
    world.node.store.submit(commands.DeleteVhost("v"), None)
    world.pair.until(lambda: "v" not in world.node.metadata.vhosts)
    for each in (client, consumer):
        world.pair.until(lambda each=each: isinstance(each.methods[-1], spec.ConnectionClose))
        assert closed(each).reply_text == "CONNECTION_FORCED - vhost 'v' is deleted"
    assert not other.methods
    assert group not in world.node.queues.logged
    late = world.pair.a.caller(user="u", vhost="v")
    world.pair.until(lambda: bool(late.methods))
    assert closed(late).reply_text == "NOT_ALLOWED - vhost v not found"
    make()
    again = world.client(vhost="v")
    missing = again.declare("1", passive=True)
    assert isinstance(missing, spec.ChannelClose) and missing.reply_code == 404
    world.change(commands.DeleteVhost("v"))
    assert "v" not in world.node.queues.vhosts or not world.node.queues.vhosts["v"].queues


def test_requests_that_are_under_way_when_their_vhost_goes_end_with_it(world: World) -> None:
    world.change(commands.DeclareVhost("v"), commands.SetPermissions("u", "v", ALL, ALL, ALL))
    client = world.client(vhost="v")
    node = world.node
    # All in one round of the log: what is declared comes after the vhost has gone.
    node.store.submit(commands.DeleteVhost("v"), None)
    client.send(queue("late"))
    client.send(spec.ExchangeDeclare(0, "late", "topic", False, True, False, False, False, {}))
    client.exchange()
    world.pair.until(lambda: any(isinstance(m, spec.ConnectionClose) for m in client.methods))
    world.pair.settle()
    assert "v" not in node.metadata.vhosts
    assert node.store.in_force and node.failure is None


def test_a_vhost_has_no_more_queues_than_it_may(world: World) -> None:
    world.change(
        commands.DeclareVhost("v"),
        commands.SetPermissions("u", "v", ALL, ALL, ALL),
        commands.SetVhostLimits("v", {"max-queues": 2}),
    )
    text = (
        "PRECONDITION_FAILED - cannot declare queue '{}': queue limit in vhost 'v' (2) is reached"
    )
    clients = [world.client(vhost="v") for _ in range(4)]
    # All at once: none of them sees the others' queues when it asks.
    for number, client in enumerate(clients):
        client.send(queue(f"{number}"))
    world.pair.until(lambda: all(client.methods for client in clients))
    answers = [client.methods[0] for client in clients]
    assert sum(isinstance(answer, spec.QueueDeclareOk) for answer in answers) == 2
    for number, answer in enumerate(answers):
        if not isinstance(answer, spec.QueueDeclareOk):
            assert isinstance(answer, spec.ChannelClose)
            assert answer.reply_text == text.format(number)
    there = [number for number, answer in enumerate(answers) if type(answer) is spec.QueueDeclareOk]
    client = world.client(vhost="v")
    assert isinstance(client.call(queue(f"{there[0]}")), spec.QueueDeclareOk)
    world.change(commands.SetVhostLimits("v", {"max-queues": -5}))
    assert isinstance(client.call(queue("unlimited")), spec.QueueDeclareOk)
    world.change(commands.SetVhostLimits("v", {"max-queues": -1}))
    assert isinstance(client.call(queue("more")), spec.QueueDeclareOk)
    world.change(commands.SetVhostLimits("v", {"max-queues": 0}))
    answer = client.call(queue("none"))
    assert isinstance(answer, spec.ChannelClose)
    assert answer.reply_text.endswith("(0) is reached")
    world.change(commands.DeleteVhost("v"))


def test_queues_have_the_type_that_their_vhost_says(world: World) -> None:
    world.change(
        commands.SetVhost("v", True, {"default_queue_type": "quorum"}),
        commands.SetPermissions("u", "v", ALL, ALL, ALL),
    )
    client = world.client(vhost="v")

    def kind(name: str, **flags: bool) -> str:
        method = spec.QueueDeclare(
            0,
            name,
            False,
            flags.get("durable", True),
            flags.get("exclusive", False),
            flags.get("auto_delete", False),
            False,
            {"x-queue-type": "classic"} if flags.get("classic") else {},
        )
        answer = client.call(method)
        assert isinstance(answer, spec.QueueDeclareOk), answer
        record = world.node.metadata.queue("v", answer.queue)
        assert record is not None
        return record.kind

    assert kind("plain") == kind("plain") == "quorum"
    assert kind("asked", classic=True) == "classic"
    # A type that has no such queues is not meant.
    assert kind("own", exclusive=True) == "classic"
    assert kind("", exclusive=True) == "classic"
    assert kind("brief", durable=False) == "classic"
    assert kind("auto", auto_delete=True) == "classic"
    unnamed = client.call(queue(""))
    assert isinstance(unnamed, spec.ChannelClose)
    assert unnamed.reply_text == (
        "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    )
    world.change(commands.DeleteVhost("v"))


def test_all_of_it_is_there_after_a_restart_and_nothing_comes_back() -> None:
    pair = Pair(alone=True)
    world = World(pair)
    world.change(
        commands.SetVhost("v", True, {"tags": ["t"], "default_queue_type": "quorum"}),
        commands.SetVhostLimits("v", {"max-queues": 7}),
        commands.SetPermissions("u", "v", "c", "w", "r"),
        commands.SetTopicPermissions("u", "v", "amq.topic", "w", "r"),
        commands.SetUserLimits("u", {"max-channels": 3}, []),
        commands.SetUserTags("u", ["administrator"]),
        commands.DeleteVhost("/"),
        commands.DeleteUser("guest"),
    )
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    machine = pair.a.node.metadata
    assert list(machine.users) == ["u"] and list(machine.vhosts) == ["v"]
    tables, user = machine.vhosts["v"], machine.users["u"]
    assert (tables.tags, tables.default_queue_type, tables.limits) == (
        ["t"],
        "quorum",
        {"max-queues": 7},
    )
    assert (user.tags, user.limits) == (["administrator"], {"max-channels": 3})
    assert tables.topic_permissions["u"]["amq.topic"].write == "w"
    # Without any vhost, too, whoever starts is not given the user that all know.
    world.node = pair.a.node
    world.change(commands.DeleteVhost("v"))
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    machine = pair.a.node.metadata
    assert list(machine.users) == ["u"] and list(machine.vhosts) == []


def test_a_deleted_vhost_is_gone_on_all_nodes() -> None:
    pair = Pair()
    world = World(pair)
    world.change(
        commands.DeclareVhost("v"),
        commands.SetPermissions("u", "v", ALL, ALL, ALL),
    )
    pair.settle()
    here, there = world.client(vhost="v"), pair.b.client(user="u", vhost="v")
    here.declare("both", kind="quorum", size=2)
    here.declare("one", kind="quorum", size=1)
    here.declare("classic")
    for name in ("both", "one", "classic"):
        there.publish(name, b"x")
        there.consume(name)
    pair.until(lambda: len(there.messages) == 3)
    groups = {int(row.group_id) for row in world.node.metadata.vhosts["v"].queues.values()}
    there.send(queue("late"))
    world.change(commands.DeleteVhost("v"))
    for client in (here, there):
        pair.until(lambda client=client: isinstance(client.methods[-1], spec.ConnectionClose))
    pair.settle(40)
    for station in (pair.a, pair.b):
        node = station.node
        assert "v" not in node.metadata.vhosts and node.failure is None
        assert not groups & set(node.queues.logged) and not groups & set(node.cluster.members)
        assert not any(node.log.has_group(group) for group in groups)
    assert pair.a.node.metadata.state_hash() == pair.b.node.metadata.state_hash()


def test_a_node_that_takes_over_tables_as_a_whole_closes_what_is_gone_there() -> None:
    pair = Pair()
    world = World(pair)
    pair.add("c")
    world.change(
        commands.DeclareVhost("v"),
        commands.SetPermissions("u", "v", ALL, ALL, ALL),
        commands.SetPermissions("guest", "v", ALL, ALL, ALL),
    )
    pair.settle()
    stays = pair.b.client()
    of_user = pair.b.client(user="u")
    of_vhost = pair.b.client(vhost="v")
    before = pair.b.node.metadata.applied_index
    for other in ("a", "c"):
        pair.cut(other, "b")
        pair.cut("b", other)
        pair.blocked |= {(other, "b"), ("b", other)}
    world.change(commands.DeleteUser("u"), commands.DeleteVhost("v"))
    for _ in range(40):
        world.change(commands.Barrier())
        pair.a.node.store.snapshot()
    pair.settle(40)
    pair.blocked.clear()
    pair.until(lambda: bool(of_user.methods) and bool(of_vhost.methods))
    assert pair.b.node.metadata.applied_index > before
    assert closed(of_user).reply_text == "CONNECTION_FORCED - user 'u' is deleted"
    assert closed(of_vhost).reply_text == "CONNECTION_FORCED - vhost 'v' is deleted"
    assert not stays.methods


TOKEN = "eyJ.of.all"


class BearerOfAll(TokenVerifier):
    """Lets the bearer of any token do everything."""

    def verify(self, token: str) -> Grants:
        scopes = [GrantedScope(each, "*", "*", "*") for each in PERMISSIONS]
        return Grants("bearer", [], scopes, NEVER)


def without_b(world: World) -> None:
    """Cut node b off from the others."""
    pair = world.pair
    for other in ("a", "c"):
        pair.cut(other, "b")
        pair.cut("b", other)
        pair.blocked |= {(other, "b"), ("b", other)}


def with_b(world: World) -> None:
    """Let node b have the tables of the others, as a whole."""
    pair = world.pair
    before = pair.b.node.metadata.applied_index
    for station in (pair.a, pair.stations["c"]):
        member = station.node.store.member()
        assert member.snapshots.take(member, True) > 0
    pair.settle(40)
    pair.blocked.clear()
    pair.until(lambda: pair.b.node.metadata.applied_index >= pair.a.node.metadata.applied_index)
    assert pair.b.node.metadata.applied_index > before
    assert pair.a.node.metadata.state_hash() == pair.b.node.metadata.state_hash()


def test_tables_as_a_whole_tell_a_vhost_or_user_from_a_former_one_of_its_name() -> None:
    """What was deleted and made anew is another one: rights in the former are gone."""
    pair = Pair()
    world = World(pair)
    pair.add("c")
    make_user = commands.SetUser("u", hash_password(b"u", b"salt"), SHA256, [], False)
    make_vhost = commands.SetPermissions("guest", "v", ALL, ALL, ALL)
    world.change(commands.DeclareVhost("v"), make_vhost)
    world.change(
        commands.SetVhost("w", True, {}), commands.SetPermissions("guest", "w", ALL, ALL, ALL)
    )
    pair.settle()
    # Whom a token names is no user of the tables, and so not gone with any.
    pair.b.node.tokens = BearerOfAll(False)
    bearer = pair.b.client(user="bearer", password=TOKEN)
    stays = [pair.b.client(), pair.b.client(vhost="w"), bearer]
    of_user = pair.b.client(user="u")
    of_vhost = pair.b.client(vhost="v")
    of_vhost.declare("q", durable=True)
    without_b(world)
    world.change(
        commands.DeleteUser("u"),
        make_user,
        commands.SetPermissions("u", "/", ALL, ALL, ALL),
        commands.DeleteVhost("v"),
        commands.DeclareVhost("v"),
        make_vhost,
        # What is changed stays what it is.
        commands.SetUserTags("guest", ["administrator"]),
        commands.SetUser("guest", hash_password(b"guest", b"salt"), SHA256, [], False),
        commands.SetVhost("w", False, {"description": "other"}),
    )
    with_b(world)
    pair.until(lambda: bool(of_user.methods) and bool(of_vhost.methods))
    assert closed(of_user).reply_text == "CONNECTION_FORCED - user 'u' is deleted"
    pair.until(lambda: isinstance(of_vhost.methods[-1], spec.ConnectionClose))
    assert closed(of_vhost).reply_text == "CONNECTION_FORCED - vhost 'v' is deleted"
    assert not any(each.methods for each in stays)
    # Those that come now are of the present ones.
    again = [pair.b.client(user="u"), pair.b.client(vhost="v")]
    without_b(world)
    world.change(commands.SetUserTags("u", ["management"]))
    with_b(world)
    for each in [*again, *stays]:
        assert isinstance(each.call(spec.BasicQos(0, 0, False)), spec.BasicQosOk)
