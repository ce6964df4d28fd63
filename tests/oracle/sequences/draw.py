"""Draws sequences: few names, few clients, all that a client may ask of queues and exchanges.

What is drawn has one outcome. It keeps out what the brokers answer otherwise on purpose
(`deviations.py` of the oracle), as narrowly as it can; each place where it does says so.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.oracle.sequences.steps import Sequence, typed

STEPS_MAX = 18
PLACES = ("a/1", "a/1", "a/1", "a/2", "b/1", "b/1", "b/2")
QUEUES = ("@q0", "@q1", "@q2")
EXCHANGES = ("@e0", "@e1")
KEYS = ("", "k", "a.b", "a.c.b")
PATTERNS = ("", "k", "a.b", "a.*", "#", "a.#", "*.b")
TYPES = ("direct", "fanout", "topic", "headers")

WRONG: tuple[Any, ...] = (
    "text", "", True, -1, 1.5, typed("V"), typed("T", 5), typed("A", []), typed("F", {}),
    typed("l", 2**40), typed("l", -(2**40)), typed("x", "5"), "5",
)  # fmt: skip
"""Values that most arguments cannot have; some can."""

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "x-max-length": (0, 1, 2, 3, 5),
    "x-max-length-bytes": (0, 4, 10, 100),
    "x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx"),
    "x-message-ttl": (0, 10_000_000),
    "x-max-priority": (0, 1, 2, 5),
    "x-dead-letter-exchange": ("", "", "@e0", "@e1", "@none"),
    "x-dead-letter-routing-key": ("@q0", "@q1", "@q2", "k"),
    "x-delivery-limit": (0, 1, 2),
    "x-single-active-consumer": (True, True, False),
    "x-queue-type": ("classic", "quorum", "unheard-of"),
    "x-quorum-initial-group-size": (1, 3),
    "x-queue-mode": ("lazy", "default"),
    "x-queue-version": (1, 2),
    "x-queue-leader-locator": ("client-local", "balanced"),
    "x-consumer-timeout": (10_000_000,),
    "x-max-in-memory-length": (5,),
    "x-unheard-of": (1, "one"),
}
CLASSIC = (
    "x-max-length", "x-max-length", "x-max-length-bytes", "x-overflow", "x-overflow",
    "x-message-ttl", "x-max-priority", "x-max-priority", "x-dead-letter-exchange",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-routing-key",
    "x-single-active-consumer",
)  # fmt: skip
"""What a classic queue is mostly given."""
QUORUM = (
    "x-max-length", "x-max-length-bytes", "x-overflow", "x-message-ttl", "x-dead-letter-exchange",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-routing-key",
    "x-delivery-limit", "x-delivery-limit", "x-single-active-consumer",
    "x-quorum-initial-group-size",
)  # fmt: skip
"""The same of a quorum queue."""
FLAGS: dict[str, dict[str, Any]] = {
    "durable": {"durable": True},
    "transient": {},
    "exclusive": {"exclusive": True},
    "auto-delete": {"auto_delete": True, "durable": True},
    "quorum": {"durable": True},
}


class Drawing:
    """What is known while a sequence is drawn."""

    def __init__(self, number: int) -> None:
        self.random = Random(number)
        self.queues: dict[str, dict[str, Any]] = {}
        self.exchanges: dict[str, dict[str, Any]] = {}
        self.owners: dict[str, str] = {}
        self.quorum: set[str] = set()
        self.transactional: list[str] = []
        self.limited: set[str] = set()
        self.prefetched: set[str] = set()
        self.served: set[tuple[str, str]] = set()
        self.holding: list[str] = []
        self.consuming: list[tuple[str, str]] = []
        self.bodies = 0

    def one(self, *choices: Any) -> Any:
        """One of some, each as likely as it is often."""
        return self.random.choice(choices)

    def seldom(self, of: int) -> bool:
        """True once in so many."""
        return self.random.randrange(of) == 0

    def place(self, queue: str = "") -> str:
        """A channel, mostly of the connection that may use an exclusive queue."""
        place = str(self.one(*PLACES))
        if queue in self.owners and not self.seldom(10):
            return self.owners[queue] + place[1:]
        return place

    # Which step

    def sequence(self) -> Sequence:
        """A whole sequence."""
        steps: Sequence = []
        count = self.random.randint(4, STEPS_MAX)
        for _ in range(self.one(1, 2, 2, 3)):
            steps.append(self.declare_queue())
        if self.seldom(3):
            steps += [self.declare_exchange(), self.bind()]
        while len(steps) < count:
            kind = self.one(*KINDS)
            steps.append(getattr(self, kind)())
        self._clear(steps)
        return steps

    @staticmethod
    def _clear(steps: Sequence) -> None:
        """Take out what is answered otherwise on purpose."""
        declared = [step[2] for step in steps if step[1:2] == ["queue.declare"]]
        arguments = [each["arguments"] for each in declared if "arguments" in each]
        quorum = [each for each in arguments if "x-queue-type" in each]
        if any("reject-publish" in str(each.get("x-overflow")) for each in quorum):
            # How many more get in before a publisher is told that such a queue is full is chance.
            for step in steps:
                if step[1:2] == ["publish"]:
                    del step[4][1:]
        if any("x-max-priority" in each for each in arguments):
            # What expires at once before others, by its priority, the oracle hands out.
            for step in steps:
                if step[1:2] == ["publish"] and step[3].get("expiration") == "0":
                    step[3].pop("priority", None)
        for each in declared:
            # Dead letters count with their new headers here, in a quorum queue with such a limit.
            found = each.get("arguments", {})
            if "x-queue-type" in found and found.get("x-max-length-bytes") in (4, 10, 100):
                if any(may_reach(other, each.get("queue")) for other in arguments):
                    found["x-max-length-bytes"] = 0

    # Queues

    def known(self) -> str:
        """The name of a queue, mostly of one that is there."""
        if self.queues and not self.seldom(16):
            return str(self.one(*self.queues))
        return str(self.one(*QUEUES, "@none", ""))

    def declare_queue(self) -> list[Any]:
        """Declares a queue, new, again, otherwise or passively."""
        name = self.one(*QUEUES, *QUEUES, *QUEUES, *QUEUES, "") if self.queues else "@q0"
        if name in self.queues:
            how = self.one("again", "passive", "otherwise", "anew")
            was = self.queues[name]
            if how == "again":
                return [self.place(name), "queue.declare", dict(was)]
            if how == "passive":
                return [self.place(name), "queue.declare", {"queue": name, "passive": True}]
            if how == "otherwise":
                arguments = dict(was.get("arguments", {}))
                if arguments and self.seldom(2):
                    arguments.pop(self.one(*arguments))
                else:
                    arguments.update(self.arguments(CLASSIC, 1, 1))
                return [self.place(name), "queue.declare", {**was, "arguments": arguments}]
        elif self.seldom(30):
            return [self.place(), "queue.declare", {"queue": name, "passive": True}]
        kind = self.one("durable", "durable", "transient", "exclusive", "auto-delete", "quorum",
                        "quorum", "quorum")  # fmt: skip
        args: dict[str, Any] = {"queue": name, **FLAGS[kind]}
        if kind == "quorum":
            arguments = {"x-queue-type": "quorum", **self.arguments(QUORUM, 0, 3)}
            self.quorum.add(name)
            if self.seldom(30):
                args.pop("durable")
        else:
            arguments = self.arguments(CLASSIC, 0, 3)
            if name == "" and "exclusive" not in args and not self.seldom(4):
                args["exclusive"] = True
        if arguments:
            args["arguments"] = arguments
        place = self.place()
        if name not in self.queues and "exclusive" in args:
            self.owners[name] = place[0]
        self.queues.setdefault(name, args)
        return [place, "queue.declare", args]

    def arguments(self, usual: tuple[str, ...], low: int, high: int) -> dict[str, Any]:
        """Arguments of a queue, mostly such as it can have."""
        found: dict[str, Any] = {}
        for _ in range(self.random.randint(low, high)):
            key = self.one(*ARGUMENTS) if self.seldom(12) else self.one(*usual)
            if self.seldom(25):
                found[key] = self.one(*WRONG)
            else:
                found[key] = self.one(*ARGUMENTS[key])
        if "x-dead-letter-routing-key" in found and not self.seldom(20):
            found.setdefault("x-dead-letter-exchange", "")
        return found

    def delete_queue(self) -> list[Any]:
        """Deletes a queue."""
        args: dict[str, Any] = {"queue": self.known()}
        quorum = self.queues.get(args["queue"], {}).get("arguments", {}).get("x-queue-type")
        if quorum != "quorum" or self.seldom(10):
            args.update(self.one({}, {"if_unused": True}, {"if_empty": True}))
        return [self.place(args["queue"]), "queue.delete", args]

    def purge(self) -> list[Any]:
        """Purges one."""
        queue = self.known()
        return [self.place(queue), "queue.purge", {"queue": queue}]

    # Exchanges

    def exchange(self) -> str:
        """The name of an exchange, mostly of one that is there."""
        if self.exchanges and not self.seldom(16):
            return str(self.one(*self.exchanges))
        return str(self.one(*EXCHANGES, "@none"))

    def declare_exchange(self) -> list[Any]:
        """Declares an exchange."""
        name = self.one(*EXCHANGES)
        args: dict[str, Any] = {"exchange": name, "type": self.one(*TYPES)}
        if self.seldom(20):
            args["type"] = self.one("unheard-of", "x-heard-of")
        args.update(self.one({}, {"durable": True}, {"auto_delete": True}, {"internal": True}, {}))
        if self.seldom(4):
            other = self.one(*EXCHANGES, "@none", "")
            args["arguments"] = {"alternate-exchange": other}
            if self.seldom(12):
                args["arguments"]["alternate-exchange"] = self.one(*WRONG)
        if self.seldom(12):
            args["passive"] = True
        elif name in self.exchanges and self.seldom(3):
            args = dict(self.exchanges[name])
        self.exchanges.setdefault(name, args)
        return [self.place(), "exchange.declare", args]

    def delete_exchange(self) -> list[Any]:
        """Deletes one."""
        args = {"exchange": self.exchange(), **self.one({}, {"if_unused": True})}
        return [self.place(), "exchange.delete", args]

    def binding(self) -> dict[str, Any]:
        """The key and the arguments of a binding."""
        args: dict[str, Any] = {"routing_key": self.one(*PATTERNS)}
        if self.seldom(3):
            args["arguments"] = self.one(
                {}, {"h": 1}, {"x-match": "any", "h": 1, "g": "x"}, {"x-match": "all", "h": 1},
                {"x-match": "all", "h": 1, "g": "x"}, {"h": typed("V")}, {"x-match": "some"},
                {"x-match": "any-with-x", "x-h": 1}, {"x-match": 5},
            )  # fmt: skip
        return args

    def bind(self) -> list[Any]:
        """Binds a queue or an exchange."""
        source, args = self.exchange(), self.binding()
        if self.seldom(5):
            args.update(destination=self.exchange(), source=source)
            return [self.place(), "exchange.bind", args]
        queue = self.known()
        return [self.place(queue), "queue.bind", {**args, "queue": queue, "exchange": source}]

    def unbind(self) -> list[Any]:
        """Takes a binding away."""
        step = self.bind()
        return [step[0], step[1].replace("bind", "unbind"), step[2]]

    # Messages

    def publish(self) -> list[Any]:
        """Publishes some messages."""
        args: dict[str, Any] = {"exchange": "", "routing_key": self.known()}
        if self.exchanges and self.seldom(3):
            args = {"exchange": self.exchange(), "routing_key": self.one(*KEYS)}
        if self.seldom(6):
            args["mandatory"] = True
        if self.seldom(150):
            args["immediate"] = True
        bodies = []
        for _ in range(self.one(1, 1, 2, 3)):
            self.bodies += 1
            bodies.append(f"m{self.bodies}" + self.one("", "", "", "-and-more"))
        return [self.place(), "publish", args, self.properties(), bodies]

    def properties(self) -> dict[str, Any]:
        """The properties of a message."""
        found: dict[str, Any] = {}
        if self.seldom(2):
            found["delivery_mode"] = self.one(1, 2, 2)
        if self.seldom(4):
            found["priority"] = self.one(0, 1, 2, 4, 5, 9, 255)
        if self.seldom(8):
            found["expiration"] = self.one("0", "10000000", "10000000")
        if self.seldom(80):
            found["expiration"] = self.one("", "soon", "-1", "1.5", " 1")
        headers: dict[str, Any] = {}
        if self.seldom(4):
            headers.update(
                self.one({"h": 1}, {"h": 1, "g": "x"}, {"g": "x"}, {"h": "1"}, {"x-h": 1})
            )
        if self.seldom(8):
            key = self.one("CC", "CC", "BCC")
            headers[key] = self.one([self.one(*QUEUES)], [self.one(*QUEUES), "k"], ["a.b"], [])
        if self.seldom(120):
            headers[self.one("CC", "BCC")] = self.one("k", 5, [5], {})
        if headers:
            found["headers"] = headers
        if self.seldom(12):
            found.update(self.one({"type": "t"}, {"content_type": "text/plain"}, {"app_id": "x"},
                                  {"message_id": "1", "correlation_id": "2"}, {"reply_to": "k"},
                                  {"timestamp": 1_000_000}))  # fmt: skip
        return found

    def confirm(self) -> list[Any]:
        """Puts a channel into a mode."""
        place = self.place()
        method = self.one("confirm.select", "confirm.select", "tx.select")
        if method == "tx.select":
            self.transactional.append(place)
        return [place, method, {}]

    def transact(self) -> list[Any]:
        """Ends a transaction, mostly of a channel that has one."""
        if not self.transactional and not self.seldom(10):
            return self.publish()
        place = self.one(*self.transactional) if self.transactional else self.place()
        return [place, self.one("tx.commit", "tx.commit", "tx.rollback"), {}]

    # Consumers

    def get(self) -> list[Any]:
        """Asks for a message."""
        args = {"queue": self.known(), "no_ack": self.seldom(3)}
        place = self.place(args["queue"])
        if not args["no_ack"]:
            self.holding.append(place)
        return [place, "basic.get", args]

    def consume(self) -> list[Any]:
        """Begins a consumer."""
        args: dict[str, Any] = {"queue": self.known()}
        args["consumer_tag"] = f"c{len(self.consuming)}"
        if self.seldom(30):
            args["consumer_tag"] = ""
        if self.seldom(4):
            args["no_ack"] = True
        if self.seldom(10):
            args["exclusive"] = True
        if self.seldom(4):
            args["arguments"] = {"x-priority": self.one(0, 1, 5, -1, 5)}
            if self.seldom(20):
                args["arguments"] = {"x-priority": self.one(*WRONG)}
        place = self.place(args["queue"])
        if place in self.limited:
            # A limit of a whole channel is none of quorum queues, whatever a setting says (D-22).
            known = [name for name in self.queues if name not in self.quorum]
            args["queue"] = self.one(*known, "@none")
            # What is acknowledged by itself waits for such a limit in the oracle, too; not here.
            args.pop("no_ack", None)
        if place in self.prefetched and args["queue"] in self.quorum:
            # Of a quorum queue even these have the prefetch in the oracle, until they are settled.
            args.pop("no_ack", None)
        if (place, args["queue"]) in self.served:
            # Who gets what returns where a channel has two consumers of a queue is chance.
            return self.publish()
        self.served.add((place, args["queue"]))
        self.consuming.append((place, args["consumer_tag"]))
        if "no_ack" not in args:
            self.holding += [place] * 3
        return [place, "basic.consume", args]

    def cancel(self) -> list[Any]:
        """Ends one."""
        place, tag = self.place(), self.one("c0", "c1")
        if self.consuming and not self.seldom(10):
            place, tag = self.one(*self.consuming)
        return [place, "basic.cancel", {"consumer_tag": tag}]

    def qos(self) -> list[Any]:
        """Limits what a channel or its consumers hold."""
        args = {"prefetch_count": self.one(0, 1, 1, 2, 3), "global": self.seldom(6)}
        if self.seldom(60):
            args["prefetch_size"] = 1
        place = self.place()
        self.prefetched.add(place)
        if args["global"]:
            self.limited.add(place)
        return [place, "basic.qos", args]

    def settle(self) -> list[Any]:
        """Settles what a client holds."""
        if not self.holding and not self.seldom(10):
            return self.consume()
        method = self.one("basic.ack", "basic.nack", "basic.nack", "basic.reject", "basic.reject")
        args: dict[str, Any] = {"pick": self.one(0, 0, 1, 2)}
        if self.seldom(40):
            args = {"delivery_tag": self.one(0, 1, 2, 99)}
        if method != "basic.reject" and self.seldom(4):
            args["multiple"] = True
        if method != "basic.ack":
            args["requeue"] = self.one(True, True, False)
        place = self.one(*self.holding) if self.holding else self.place()
        return [place, method, args]

    def recover(self) -> list[Any]:
        """Gives all back that a channel holds."""
        place = self.one(*self.holding) if self.holding else self.place()
        return [place, "basic.recover", {"requeue": not self.seldom(20)}]

    # Parting

    def part(self) -> list[Any]:
        """Closes a channel or a connection."""
        who = self.one("a", "b")
        if self.seldom(3) and len({place for place in self.holding if place[0] == who}) < 2:
            # Else its channels go one by one, and what one held may go to another for a moment.
            return [who, "leave"]
        return [self.place(), "channel.close", {}]


def may_reach(arguments: dict[str, Any], queue: Any) -> bool:
    """Whether dead letters of a queue with such arguments may come to a queue."""
    exchange = arguments.get("x-dead-letter-exchange")
    if exchange is None:
        return False
    return exchange != "" or arguments.get("x-dead-letter-routing-key", queue) == queue


KINDS = (
    ["publish"] * 20 + ["consume"] * 9 + ["settle"] * 16 + ["get"] * 9 + ["declare_queue"] * 3
    + ["declare_exchange"] * 2 + ["bind"] * 4 + ["unbind"] + ["qos"] * 3 + ["cancel"] * 3
    + ["confirm"] * 3 + ["transact"] * 2 + ["purge", "delete_queue", "delete_queue"]
    + ["delete_exchange", "recover", "recover", "part", "part"]
)  # fmt: skip


def drawn(number: int) -> Sequence:
    """The sequence of a number: always the same."""
    return Drawing(number).sequence()
