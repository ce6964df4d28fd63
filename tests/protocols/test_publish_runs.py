"""How a client's bytes are cut, in frames, reads and runs, changes nothing of what they do."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.node.pair import Pair
from tests.protocols.line import Line, Told, publish_frames
from tests.support.examples import examples
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

QUEUES = ("one", "two", "three", "match")
CHANNELS = 2
ASK_REPLY = "amq.rabbitmq.reply-to"
REPLY = "<reply>"
BODY_BYTES_MAX = 40
ROUNDS_MAX = 200
PLAIN, CONFIRM, TRANSACT = "plain", "confirm", "tx"
PUBLISH, DECLARE, COMMIT, ROLL_BACK = "publish", "declare", "commit", "rollback"


@dataclass(frozen=True)
class Shape:
    """What a message is like, but for its body: the few that there are come again and again."""

    exchange: str = ""
    key: str = "one"
    headers: tuple[tuple[str, str | tuple[str, ...]], ...] = ()
    persistent: bool = False
    asks_reply: bool = False
    mandatory: bool = False
    message_id: str | None = None
    priority: int | None = None
    expiration: str | None = None

    def properties(self) -> Properties:
        """As the publisher sends them."""
        table: Table = {
            name: list(value) if isinstance(value, tuple) else value for name, value in self.headers
        }
        return Properties(
            headers=table or None,
            delivery_mode=2 if self.persistent else None,
            reply_to=ASK_REPLY if self.asks_reply else None,
            message_id=self.message_id,
            priority=self.priority,
            expiration=self.expiration,
        )

    def queues(self) -> set[str]:
        """Where it goes, by the rules of the exchange types."""
        named = dict(self.headers)
        if self.exchange == "by-headers" and named.get("kind") == "x":
            return {"match"}
        if self.exchange == "by-headers":
            return set()
        keys = {self.key, *named.get("CC", ()), *named.get("BCC", ())}
        return keys & set(QUEUES)


SHAPES = (
    Shape(),
    Shape(persistent=True),
    Shape(persistent=True, message_id="a"),
    Shape(persistent=True, message_id="another", headers=(("kind", "x"),)),
    Shape(key="two", priority=1, message_id="a"),
    Shape(key="two", priority=2, expiration="3600000"),
    Shape(key="two", priority=2, expiration="3600000", persistent=True, message_id="a"),
    Shape(key="two"),
    Shape(key="nowhere"),
    Shape(key="nowhere", mandatory=True),
    Shape(mandatory=True),
    Shape(headers=(("CC", ("two",)),)),
    Shape(headers=(("BCC", ("three",)), ("kind", "x"))),
    Shape(headers=(("CC", ("three", "one")), ("BCC", ("two",))), persistent=True),
    Shape(key="nowhere", headers=(("CC", ("two",)),), mandatory=True),
    Shape(asks_reply=True),
    Shape(asks_reply=True, headers=(("CC", ("two",)),)),
    Shape(exchange="by-headers", headers=(("kind", "x"),)),
    Shape(exchange="by-headers", headers=(("kind", "y"),), mandatory=True),
)


@dataclass(frozen=True)
class Step:
    """Something that a channel does; a message's body comes in these parts."""

    what: str
    shape: Shape = SHAPES[0]
    parts: tuple[bytes, ...] = ()


@dataclass
class Expected:
    """What has to come of the steps of one channel, worked out step by step."""

    queues: dict[str, list[tuple[str, str, Properties, bytes]]] = field(
        default_factory=lambda: {name: [] for name in QUEUES}
    )
    returned: list[tuple[str, str, bytes]] = field(default_factory=list)
    published: int = 0

    def publish(self, shape: Shape, body: bytes) -> None:
        """A message is let into its queues."""
        properties = shape.properties()
        if properties.headers is not None:
            properties.headers.pop("BCC", None)
        if shape.asks_reply:
            properties.reply_to = REPLY
        for name in shape.queues():
            self.queues[name].append((shape.exchange, shape.key, properties, body))
        if not shape.queues() and shape.mandatory:
            self.returned.append((shape.exchange, shape.key, body))
        self.published += 1


def expectation(mode: str, steps: list[Step]) -> Expected:
    """What RabbitMQ makes of these steps, one after the other."""
    expected = Expected()
    pending: list[Step] = []
    for step in steps:
        if step.what == PUBLISH and mode == TRANSACT:
            pending.append(step)
        elif step.what == PUBLISH:
            expected.publish(step.shape, b"".join(step.parts))
        elif step.what in (COMMIT, ROLL_BACK):
            for kept in pending if step.what == COMMIT else ():
                expected.publish(kept.shape, b"".join(kept.parts))
            pending = []
    return expected


def frames_of(channel: int, mode: str, step: Step, number: int) -> list[bytes]:
    """The frames of a step; what does not fit a channel's mode is nothing."""
    if step.what == PUBLISH:
        shape = step.shape
        properties = shape.properties().encode()
        return publish_frames(
            channel, shape.exchange, shape.key, properties, step.parts, shape.mandatory
        )
    if step.what == DECLARE:
        # It waits for the disk; what follows on its channel is put aside meanwhile.
        name = f"x{channel}.{number}"
        declare = spec.ExchangeDeclare(0, name, "fanout", False, False, False, False, False, {})
        return [method_frame(channel, declare.encode())]
    if mode != TRANSACT:
        return []
    method = spec.TxCommit() if step.what == COMMIT else spec.TxRollback()
    return [method_frame(channel, method.encode())]


def prepare(pair: Pair, modes: list[str]) -> Line:
    """A connection with its topology, channels in these modes, and a consumer of replies each."""
    line = Line(pair.a, channels=CHANNELS)
    for name in QUEUES:
        kind: Table = {"x-queue-type": "quorum" if name == "two" else "classic"}
        line.ask(1, spec.QueueDeclare(0, name, False, True, False, False, False, kind))
    headers = spec.ExchangeDeclare(0, "by-headers", "headers", False, True, False, False, False, {})
    line.ask(1, headers)
    line.ask(1, spec.QueueBind(0, "match", "by-headers", "", False, {"kind": "x"}))
    for channel, mode in enumerate(modes, 1):
        line.ask(channel, spec.BasicConsume(0, ASK_REPLY, "", False, True, False, False, {}))
        if mode == CONFIRM:
            line.ask(channel, spec.ConfirmSelect(False))
        elif mode == TRANSACT:
            line.ask(channel, spec.TxSelect())
    line.told.clear()
    return line


def address_of(told: Told) -> str:
    """`<reply>` for any reply address but the one that clients write."""
    text = told.properties.reply_to or ""
    return REPLY if text.startswith(f"{ASK_REPLY}.") else text


def same(properties: Properties, told: Told) -> bool:
    """Whether a message has these properties, whatever its reply address is."""
    return properties.encode() == with_reply(told).encode()


def with_reply(told: Told) -> Properties:
    """The properties of a message, its reply address rewritten."""
    if told.properties.reply_to is not None:
        told.properties.reply_to = address_of(told)
    return told.properties


def check(line: Line, modes: list[str], steps: list[list[Step]]) -> None:
    """Everything is where it belongs, each channel's in its order, and answered."""
    for channel, (mode, done) in enumerate(zip(modes, steps, strict=True), 1):
        expected = expectation(mode, done)
        if mode == CONFIRM:
            assert line.confirmed(channel) == set(range(1, expected.published + 1))
        returned = [told for told in line.of(spec.BasicReturn) if told.channel == channel]
        assert [
            (told.method.exchange, told.method.routing_key, told.body) for told in returned
        ] == expected.returned
    assert not line.of(spec.BasicNack, spec.ChannelClose, spec.ConnectionClose)
    for name in QUEUES:
        got = line.drain(name)
        for channel, (mode, done) in enumerate(zip(modes, steps, strict=True), 1):
            mine = [told for told in got if told.body.startswith(b"%d." % channel)]
            wanted = expectation(mode, done).queues[name]
            assert [told.body for told in mine] == [body for *_, body in wanted], name
            for told, (exchange, key, properties, _) in zip(mine, wanted, strict=True):
                assert (told.method.exchange, told.method.routing_key) == (exchange, key)
                assert same(properties, told), (told.properties.headers, properties.headers)


WHATS = (PUBLISH, PUBLISH, PUBLISH, PUBLISH, DECLARE, COMMIT, ROLL_BACK)
CHANNEL = st.tuples(
    st.sampled_from((PLAIN, CONFIRM, TRANSACT)),
    st.lists(
        st.tuples(st.sampled_from(WHATS), st.sampled_from(SHAPES), st.integers(1, 4)), max_size=6
    ),
)


def steps_of(channel: int, some: list[tuple[str, Shape, int]], random: Random) -> list[Step]:
    """The steps of a channel: each of the messages several times, with bodies of their own."""
    steps: list[Step] = []
    for what, shape, count in some:
        equal = random.random() < 0.5
        for _ in range(count if what == PUBLISH else 1):
            body = b"%d.%d." % (channel, len(steps)) + bytes(random.randrange(BODY_BYTES_MAX))
            if equal:
                body = body.ljust(BODY_BYTES_MAX, b"=")
            cuts = sorted(random.sample(range(1, len(body)), random.randrange(1 if equal else 4)))
            bounds = zip([0, *cuts], [*cuts, len(body)], strict=True)
            steps.append(Step(what, shape, tuple(body[a:b] for a, b in bounds)))
    return steps


@given(channels=st.tuples(*[CHANNEL] * CHANNELS), cut=st.integers(0, 1 << 30))
@settings(max_examples=examples(60))
def test_any_cut_of_the_same_messages_has_the_same_outcome(
    channels: tuple[tuple[str, list[tuple[str, Shape, int]]], ...], cut: int
) -> None:
    """Frames of two channels interleaved, and read in any pieces, do what the messages say."""
    random = Random(cut)
    modes = [mode for mode, _ in channels]
    steps = [steps_of(channel, some, random) for channel, (_, some) in enumerate(channels, 1)]
    line = prepare(Pair(alone=True), modes)
    waiting = [
        [
            part
            for number, step in enumerate(some)
            for part in frames_of(channel, mode, step, number)
        ]
        for channel, (mode, some) in enumerate(zip(modes, steps, strict=True), 1)
    ]
    stream = bytearray()
    while any(waiting):
        chosen = random.choice([frames for frames in waiting if frames])
        for _ in range(min(len(chosen), random.randint(1, 12))):
            stream += chosen.pop(0)
    at = 0
    longest = random.choice((20, 200, 10_000))
    while at < len(stream):
        size = random.randint(1, longest)
        line.hand(bytes(stream[at : at + size]))
        at += size
        if random.random() < 0.3:
            line.pair.step()
    answers = sum(
        step.what == DECLARE or (mode == TRANSACT and step.what in (COMMIT, ROLL_BACK))
        for mode, some in zip(modes, steps, strict=True)
        for step in some
    )
    oks = (spec.ExchangeDeclareOk, spec.TxCommitOk, spec.TxRollbackOk)
    for _ in range(ROUNDS_MAX):
        if len(line.of(*oks)) == answers:
            break
        line.pair.step()
    line.pair.settle(6)
    check(line, modes, steps)


def test_message_that_arrives_while_its_channel_waits_may_arrive_in_pieces() -> None:
    """What was put aside ends within a message; the rest comes when the channel goes on."""
    line = prepare(Pair(alone=True), [PLAIN, PLAIN])
    frames = publish_frames(1, "", "one", b"\x00\x00", [b"1.0."])
    declare = frames_of(1, PLAIN, Step(DECLARE), 0)
    line.hand(b"".join([*declare, *frames[:2]]))
    line.wait(1, spec.ExchangeDeclareOk)
    line.hand(frames[2])
    check(line, [PLAIN, PLAIN], [[Step(PUBLISH, parts=(b"1.0.",))], []])


def in_one_read(line: Line, some: list[tuple[str, Properties]]) -> None:
    """Have the node read messages for the queue `two`, each with an id, at once."""
    stream = bytearray()
    for number, (body, properties) in enumerate(some):
        properties.message_id = f"id-{number}"
        stream += b"".join(publish_frames(1, "", "two", properties.encode(), [body.encode()]))
    line.hand(bytes(stream))
    line.pair.settle()


def test_messages_of_one_read_keep_what_each_asks_for() -> None:
    """Only neighbours that ask for the same are one run: here no two do."""
    line = prepare(Pair(alone=True), [CONFIRM, PLAIN])
    in_one_read(
        line,
        [
            ("low", Properties(delivery_mode=2)),
            ("high", Properties(delivery_mode=2, priority=9)),
            ("brief", Properties(delivery_mode=2, priority=9, expiration="0")),
            ("long", Properties(delivery_mode=2, priority=9, expiration="3600000")),
            ("lost", Properties(priority=9)),
            ("lowest", Properties(priority=0)),
        ],
    )
    assert line.confirmed() == {1, 2, 3, 4, 5, 6}
    assert [told.body for told in line.drain("two")] == [
        b"high",
        b"long",
        b"low",
        b"lost",
        b"lowest",
    ]


def test_messages_before_one_that_is_refused_are_taken() -> None:
    """The refusal is of the one alone, though it was read with those before it."""
    line = prepare(Pair(alone=True), [PLAIN, PLAIN])
    in_one_read(
        line,
        [
            ("first", Properties()),
            ("second", Properties()),
            ("claims", Properties(user_id="somebody")),
            ("behind", Properties()),
        ],
    )
    (told,) = line.wait(1, spec.ChannelClose)
    assert isinstance(told.method, spec.ChannelClose) and told.method.reply_code == 406
    assert [told.body for told in line.drain("two", channel=2)] == [b"first", b"second"]


def equals(channel: int, count: int, body_bytes: int = 10) -> list[bytearray]:
    """Messages for the queue `one` that are unlike each other in their bodies' bytes alone."""
    return [
        bytearray().join(publish_frames(channel, "", "one", b"\x00\x00", [body]))
        for body in (b"%05d" % number + bytes(body_bytes - 5) for number in range(count))
    ]


def bodies_of(line: Line, channel: int = 1) -> list[int]:
    """What `equals` numbered the messages with that are in the queue `one`."""
    return [int(told.body[:5]) for told in line.drain("one", channel=channel)]


@pytest.mark.parametrize("at", [-1, 0, 1, 3, 8, 19, 20, 22, 26, 28, 38, 40, 41, 42, 44, 48])
def test_one_of_many_equal_messages_is_damaged(at: int) -> None:
    """Those before it are taken, wherever in it the damage is, and nothing behind it."""
    line = prepare(Pair(alone=True), [CONFIRM, PLAIN])
    messages = equals(1, 7)
    messages[4][at] ^= 0x55
    line.hand(b"".join(messages))
    line.pair.settle()
    assert line.of(spec.ConnectionClose, spec.ChannelClose), "it was noticed"
    other = Line(line.pair.a, channels=CHANNELS)
    assert bodies_of(other) == [0, 1, 2, 3]


def test_equal_messages_of_channels_in_turns() -> None:
    """Each is of its own channel, whose confirms are its own."""
    line = prepare(Pair(alone=True), [CONFIRM, CONFIRM])
    ours, theirs = equals(1, 40), equals(2, 40)
    stream = b"".join(
        b"".join((*ours[at : at + 3], *theirs[at : at + 3])) for at in range(0, 40, 3)
    )
    line.hand(stream)
    line.pair.settle()
    assert line.confirmed(1) == line.confirmed(2) == set(range(1, 41))
    assert bodies_of(line) == [
        number for at in range(0, 40, 3) for _ in (1, 2) for number in range(at, min(at + 3, 40))
    ]


@pytest.mark.parametrize("body_bytes", [5, 4_000])
def test_thousands_of_equal_messages_in_one_read(body_bytes: int) -> None:
    """However many of them one read has, each comes once, in its order, and is counted."""
    line = prepare(Pair(alone=True), [CONFIRM, PLAIN])
    before = line.pair.a.node.traffic.sizes.bytes
    line.hand(b"".join(equals(1, 1_000, body_bytes)))
    line.pair.settle(20)
    assert line.confirmed() == set(range(1, 1_001))
    assert bodies_of(line) == list(range(1_000))
    assert line.pair.a.node.traffic.sizes.bytes - before == 1_000 * body_bytes


def test_a_life_begins_when_a_message_comes_and_not_with_the_turn_before() -> None:
    """A node at rest, or one that was stopped, has had its last turn long before."""
    line = prepare(Pair(alone=True), [PLAIN, PLAIN])
    line.pair.settle()
    line.pair.clock.advance(1_000)
    brief = Properties(expiration="500").encode()
    lasting = Properties(expiration="500000").encode()
    # The second one has the first one's batch end before the turn does.
    frames = [*publish_frames(1, "", "one", brief, [b"brief"])]
    frames += publish_frames(1, "", "one", lasting, [b"lasting"])
    line.hand(b"".join(frames))
    assert [told.body for told in line.drain("one", channel=2)] == [b"brief", b"lasting"]
