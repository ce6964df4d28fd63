"""Plays a sequence to a broker and writes down, step by step, what came of it.

Each step waits for its answer and for all that follows from it: deliveries, confirms, changed
counts. What no broker promises an order for is brought into one: deliveries are told consumer by
consumer, confirms as a set, cancels by tag. So two plays of a sequence can be compared.
"""

from __future__ import annotations

import json
import random
import string
import time
from typing import Any, NamedTuple, TypeAlias

from tests.clients.raw import CONTENT, METHOD, Closed, Event, RawClient, encode_method
from tests.oracle.normal import Normal
from tests.oracle.sequences.steps import Sequence, Step, real
from tests.support.patience import patient

Answers: TypeAlias = list[dict[str, Any]]

WAIT_S = patient(10.0)
CHANNELS = (1, 2)
WATCH = 10
"""The first of the channels by which queues are watched."""
NO_ANSWER = {"basic.publish", "basic.ack", "basic.nack", "basic.reject"}
AT_ONCE = {
    "exchange.declare", "exchange.bind", "queue.bind", "basic.qos", "confirm.select", "tx.select",
}  # fmt: skip
"""What nothing follows from."""
PARTING = {"basic.cancel", "channel.close", "leave", "queue.delete", "exchange.delete",
           "queue.unbind", "exchange.unbind"}  # fmt: skip
"""What queues and exchanges may go after by themselves, a little later."""


class Pace(NamedTuple):
    """How long nothing has to change until a step counts as over, in seconds."""

    logged: float
    parting: float
    worker: float


BRISK = Pace(0.015, 0.008, 0.08)
PATIENT = Pace(patient(0.15), patient(0.1), patient(0.6))


class Held(NamedTuple):
    """A message that a client holds: its tag, and the last tag that came in the same step."""

    tag: int
    last: int
    queue: str


class Lane:
    """A channel as its client sees it."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.let_go: list[Held] = []
        self.transactional = False
        self.confirming = False
        self.published = 0
        self.unconfirmed: set[int] = set()
        self.quiet_tags: set[str] = set()
        self.quiet = False
        self.got_from = ""


class Pair:
    """Two connections to a broker, kept for many sequences."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.clients: dict[str, RawClient] = {}
        self.spoiled: set[str] = set()

    def client(self, who: str) -> RawClient:
        """The connection of that name, opened where it is not there."""
        if who not in self.clients:
            client = RawClient(self.address)
            client.open(channels=())
            self.clients[who] = client
        return self.clients[who]

    def drop(self, who: str) -> None:
        """Forget a connection."""
        client = self.clients.pop(who, None)
        if client is not None:
            client.socket.close()

    def close(self) -> None:
        """Drop both."""
        for who in list(self.clients):
            self.drop(who)


class Play:
    """One play of one sequence."""

    def __init__(self, pair: Pair, pace: Pace = BRISK) -> None:
        self.pair = pair
        self.pace = pace
        self.prefix = "o." + "".join(random.choices(string.ascii_lowercase, k=8)) + "."
        self.normal = Normal()
        self.lanes: dict[tuple[str, int], Lane] = {}
        self.owners: dict[str, str] = {}
        self.exchanges: set[str] = set()
        self.watching: dict[tuple[str, int], str] = {}
        self.watch_open: set[tuple[str, int]] = set()
        self.asked: set[tuple[str, int]] = set()
        self.counts: dict[str, Any] = {}
        self.told: dict[str, Any] = {}
        self.events: dict[tuple[str, int], list[Event]] = {}
        self.answered: set[tuple[str, int]] = set()
        self.quorum: set[str] = set()
        self.workers = False
        self.brief = False
        self.news = 0

    def run(self, sequence: Sequence) -> Answers:
        """Play all steps, then delete what was declared."""
        answers: Answers = []
        try:
            for step in sequence:
                answers.append(self._step(step))
        finally:
            self._clean()
        return answers

    # One step

    def _step(self, step: Step) -> dict[str, Any]:
        where, method, *rest = real(step, self.prefix)
        who, _, number = where.partition("/")
        channel = int(number or 0)
        self.events = {}
        args: dict[str, Any] = dict(rest[0]) if rest else {}
        if method == "leave":
            self._leave(who)
        else:
            self._open(who, channel)
            lane = self.lanes[who, channel]
            if "pick" in args and not self._pick(lane, args, method):
                return {"skipped": True}
            self._note(who, method, args)
            if method == "publish":
                self._publish(who, channel, lane, args, rest[1], rest[2])
            else:
                self.pair.client(who).send(channel, method, **args)
            if method in ("channel.close", "tx.commit"):
                # Nothing may follow these before they are answered.
                self.asked.add((who, channel))
                self._await(who, b"")
            if method != "channel.close":
                self._barrier(who, [channel])
            self._account(lane, method, args)
        self._settle(method)
        return self._summary()

    def _open(self, who: str, channel: int) -> None:
        client = self.pair.client(who)
        if (who, channel) not in self.lanes:
            client.ask(channel, "channel.open")
            self.lanes[who, channel] = Lane()

    def _pick(self, lane: Lane, args: dict[str, Any], method: str) -> bool:
        pick = args.pop("pick")
        if not lane.held:
            return False
        held = lane.held[pick % len(lane.held)]
        args["delivery_tag"] = held.last if args.get("multiple") else held.tag
        return True

    def _publish(
        self,
        who: str,
        channel: int,
        lane: Lane,
        args: dict[str, Any],
        properties: dict[str, Any],
        bodies: list[str],
    ) -> None:
        client, data = self.pair.client(who), b""
        if properties.get("expiration") == "0":
            self.brief = True
        exchange, key = args.pop("exchange"), args.pop("routing_key")
        for body in bodies:
            data += client.publish_bytes(channel, exchange, key, body.encode(), properties, **args)
            if lane.confirming:
                lane.published += 1
                lane.unconfirmed.add(lane.published)
        client.send_bytes(data)

    def _note(self, who: str, method: str, args: dict[str, Any]) -> None:
        """Remember what has to be watched, and deleted in the end."""
        if method == "queue.declare" and args.get("queue", "").startswith(self.prefix):
            self._watch(args["queue"], who)
            arguments = args.get("arguments", {})
            if arguments.get("x-queue-type") == "quorum":
                self.quorum.add(args["queue"])
            if arguments.get("x-dead-letter-strategy") == "at-least-once":
                self.workers = True
            if arguments.get("x-message-ttl") == 0:
                self.brief = True
        if method == "exchange.declare" and args.get("exchange", "").startswith(self.prefix):
            self.exchanges.add(args["exchange"])

    def _watch(self, queue: str, who: str) -> None:
        if queue not in self.owners or self.counts.get(queue) in (None, "locked"):
            for place in [place for place, name in self.watching.items() if name == queue]:
                del self.watching[place]
            used = {channel for name, channel in self.watch_open | set(self.watching)}
            place = (who, max(used, default=WATCH - 1) + 1)
            self.watching[place] = queue
            self.owners[queue] = who

    def _account(self, lane: Lane, method: str, args: dict[str, Any]) -> None:
        """Keep account of which messages the client holds."""
        if method in ("basic.ack", "basic.nack", "basic.reject"):
            tag = args["delivery_tag"]
            if args.get("multiple"):
                gone = [held for held in lane.held if tag == 0 or held.tag <= tag]
            else:
                gone = [held for held in lane.held if held.tag == tag]
            lane.held = [held for held in lane.held if held not in gone]
            if lane.transactional:
                lane.let_go += gone
        elif method == "tx.commit":
            lane.let_go = []
        elif method == "tx.rollback":
            lane.held, lane.let_go = sorted(lane.held + lane.let_go), []
        elif method == "tx.select":
            lane.transactional = True
        elif method == "basic.recover":
            lane.held = []
        elif method in ("basic.consume", "basic.get"):
            lane.quiet = bool(args.get("no_ack"))
            lane.got_from = args.get("queue", "")

    def _leave(self, who: str) -> None:
        if who not in self.pair.clients:
            return
        client = self.pair.client(who)
        client.send(0, "connection.close", reply_code=200, reply_text="bye")
        while who in self.pair.clients:
            self._read(who, time.monotonic() + WAIT_S)

    # Waiting

    def _barrier(self, who: str, channels: list[int]) -> None:
        """Wait until channels have done what they were told."""
        if who not in self.pair.clients:
            return
        client, data = self.pair.client(who), b""
        flow = encode_method("channel.flow", {"active": True})
        for channel in channels:
            if (who, channel) in self.lanes:
                data += client.frame(METHOD, channel, flow)
                self.asked.add((who, channel))
        self._await(who, data)

    def _await(self, who: str, data: bytes) -> None:
        end = time.monotonic() + WAIT_S
        try:
            if data:
                self.pair.client(who).send_bytes(data)
            while any(place[0] == who for place in self.asked):
                self._read(who, end)
        except TimeoutError:
            self._happened(Event(0, "no answer", {}), who)
            self._lost(who)
        except (Closed, OSError):
            self._happened(Event(0, "socket closed", {}), who)
            self._lost(who)

    def _look(self) -> None:
        """Ask for the counts of all queues, then wait for all channels."""
        for who in ("a", "b"):
            data = b""
            for place, queue in list(self.watching.items()):
                if place[0] != who or who not in self.pair.clients:
                    continue
                client = self.pair.client(who)
                if place not in self.watch_open:
                    data += client.frame(METHOD, place[1], encode_method("channel.open", {}))
                    self.watch_open.add(place)
                declare = encode_method("queue.declare", {"queue": queue, "passive": True})
                data += client.frame(METHOD, place[1], declare)
                self.asked.add(place)
            self._await(who, data)
        for who in ("a", "b"):
            self._barrier(who, [channel for name, channel in self.lanes if name == who])

    def _settle(self, method: str) -> None:
        """Wait until nothing changes any more."""
        for place, queue in list(self.watching.items()):
            if place[0] not in self.pair.clients:  # whoever is there watches it
                del self.watching[place]
                other = "b" if place[0] == "a" else "a"
                if other in self.pair.clients:
                    self._watch_by(queue, other)
        quiet = 0.0
        if method not in AT_ONCE:
            quiet = self.pace.parting if method in PARTING else 0.0
            if self.quorum and method != "queue.declare":
                quiet = self.pace.logged
        if any(each.name.endswith(".close") for some in self.events.values() for each in some):
            quiet = max(quiet, self.pace.parting)
        if self.brief:
            quiet = max(quiet, self.pace.logged)
        if self.workers:
            quiet = max(quiet, self.pace.worker)
        before, since, begun = None, time.monotonic(), time.monotonic()
        while time.monotonic() - begun < WAIT_S:
            self._look()
            state = (self.news, json.dumps(self.counts, sort_keys=True))
            now = time.monotonic()
            # A confirm waits for a disk, whatever else has changed by then.
            least = max(quiet, self.pace.worker) if self._awaits_confirms() else quiet
            if state != before:
                before, since = state, now
            elif now - since >= least:
                return
            else:
                time.sleep(min(0.004, least / 3))

    def _awaits_confirms(self) -> bool:
        """Whether something was published that is not confirmed yet."""
        for place, lane in self.lanes.items():
            last = 0
            answered: set[int] = set()
            for event in self.events.get(place, ()):
                if event.name in ("basic.ack", "basic.nack"):
                    answered.add(event.args["delivery_tag"])
                    if event.args["multiple"]:
                        last = max(last, event.args["delivery_tag"])
            if any(tag > last and tag not in answered for tag in lane.unconfirmed):
                return True
        return False

    def _watch_by(self, queue: str, who: str) -> None:
        used = {channel for name, channel in self.watch_open | set(self.watching)}
        self.watching[who, max(used, default=WATCH - 1) + 1] = queue

    # What comes

    def _read(self, who: str, end: float) -> None:
        client = self.pair.client(who)
        event = client.read_event(max(0.0, end - time.monotonic()))
        place = (who, event.channel)
        if event.name in ("channel.flow-ok", "tx.commit-ok"):
            self.asked.discard(place)
        if event.name == "channel.flow-ok":
            pass
        elif event.channel >= WATCH:
            self._watched(place, event)
        elif event.name == "connection.close":
            self._happened(event, who)
            client.send(0, "connection.close-ok")
            self._lost(who)
        elif event.name == "connection.close-ok":
            self._lost(who)
        else:
            self._happened(event, who)
            if event.name == "channel.close":
                client.send(event.channel, "channel.close-ok")
            if event.name in ("channel.close", "channel.close-ok"):
                self.lanes.pop(place, None)
                self.asked.discard(place)

    def _watched(self, place: tuple[str, int], event: Event) -> None:
        if event.name == "channel.open-ok":
            return
        self.asked.discard(place)
        queue = self.watching.get(place, "")
        if event.name == "channel.close":
            self.pair.client(place[0]).send(place[1], "channel.close-ok")
            self.watch_open.discard(place)
            self.watching.pop(place, None)
            code = event.args["reply_code"]
            self.counts[queue] = None if code == 404 else "locked"
            if code == 404:
                self.quorum.discard(queue)
        else:
            self.counts[queue] = [event.args["message_count"], event.args["consumer_count"]]

    def _happened(self, event: Event, who: str) -> None:
        self.news += 1
        self.events.setdefault((who, event.channel), []).append(event)
        if event.name == "queue.declare-ok" and event.args["queue"].startswith("amq.gen"):
            self._watch(event.args["queue"], who)

    def _lost(self, who: str) -> None:
        self.news += 1
        self.pair.drop(who)
        # Channels go one by one, and some may yet be given what others held.
        for place in [place for place in self.events if place[0] == who and place[1] > 0]:
            del self.events[place]
        self.asked = {place for place in self.asked if place[0] != who}
        self.watch_open = {place for place in self.watch_open if place[0] != who}
        self.lanes = {place: lane for place, lane in self.lanes.items() if place[0] != who}

    # Writing down

    def _summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for who, channel in sorted(self.events):
            lane = self.lanes.get((who, channel), Lane())
            found[f"{who}/{channel}"] = self._lane(lane, self.events[who, channel])
        now = {queue: self._count(queue, count) for queue, count in self.counts.items()}
        counts = {
            self.normal.clean(queue): count
            for queue, count in sorted(now.items())
            if self.told.get(queue) != count
        }
        self.told.update(now)
        if counts:
            found["counts"] = counts
        text = json.dumps(found).replace(self.prefix, "@")
        return json.loads(text)  # type: ignore[no-any-return]

    def _count(self, queue: str, count: Any) -> Any:
        """Messages and consumers; those are not told while somebody holds what he asked for.

        Who gets messages on a channel is one consumer; the oracle has one for each message.
        """
        asked = any(held.queue == queue for lane in self.lanes.values() for held in lane.held)
        if asked and queue in self.quorum and isinstance(count, list):
            return [count[0], "?"]
        return count

    def _lane(self, lane: Lane, events: list[Event]) -> list[Any]:
        confirms = [each for each in events if each.name in ("basic.ack", "basic.nack")]
        deliveries = [each for each in events if each.name == "basic.deliver"]
        cancels = [each for each in events if each.name == "basic.cancel"]
        others = [e for e in events if e not in confirms + deliveries + cancels]
        deliveries.sort(key=lambda each: str(self.normal.clean(each.args["consumer_tag"])))
        cancels.sort(key=lambda each: str(self.normal.clean(each.args["consumer_tag"])))
        said = []
        for event in others:
            if event.name == "confirm.select-ok":
                lane.confirming = True
            if event.name == "basic.consume-ok":
                lane.quiet_tags.discard(event.args["consumer_tag"])
                if lane.quiet:
                    lane.quiet_tags.add(event.args["consumer_tag"])
            said.append(self._event(event))
        said += [self._event(event) for event in cancels]
        if confirms:
            said.append(self._confirmed(lane, confirms))
        said += [self._event(event) for event in deliveries]
        tags = [e.args["delivery_tag"] for e in others + deliveries if "delivery_tag" in e.args]
        if tags:
            said.append({"tags": sorted(tags)})
            last = max(tags)
            for event in others + deliveries:
                tag, got = event.args.get("delivery_tag", 0), event.name == "basic.get-ok"
                if got and not lane.quiet:
                    lane.held.append(Held(tag, last, lane.got_from))
                elif not got and tag and event.args["consumer_tag"] not in lane.quiet_tags:
                    lane.held.append(Held(tag, last, ""))
        return said

    def _confirmed(self, lane: Lane, confirms: list[Event]) -> dict[str, Any]:
        outcome: dict[str, str] = {}
        for event in confirms:
            tag = event.args["delivery_tag"]
            several = event.args["multiple"]
            for each in sorted(lane.unconfirmed):
                if each == tag or (several and each < tag):
                    outcome[str(each)] = event.name.partition(".")[2]
                    lane.unconfirmed.discard(each)
            if not several and str(tag) not in outcome:
                outcome[str(tag)] = "again"
        return {"confirmed": dict(sorted(outcome.items(), key=lambda item: int(item[0])))}

    def _event(self, event: Event) -> dict[str, Any]:
        entry: dict[str, Any] = {"method": event.name}
        for key, value in event.args.items():
            if key != "delivery_tag":
                entry[key] = self.normal.clean(value)
        if event.name == "queue.declare-ok":
            messages, consumers = entry["message_count"], entry["consumer_count"]
            entry["consumer_count"] = self._count(event.args["queue"], [messages, consumers])[1]
        if event.name in CONTENT:
            entry["body"] = self.normal.clean(event.body)
            entry["properties"] = self.normal.clean(event.properties)
            if event.name == "basic.deliver" and "x-death" in event.properties.get("headers", {}):
                # The oracle forgets that a dead letter failed before where a consumer waits for it.
                del entry["redelivered"]
        return entry

    # Afterwards

    def _clean(self) -> None:
        """Close all channels and delete all that was declared."""
        for who in list(self.pair.clients):
            mine = [channel for name, channel in [*self.lanes, *self.watch_open] if name == who]
            try:
                for channel in mine:
                    self._done(who, channel, "channel.close")
                self._done(who, 9, "channel.open")
                for queue, owner in self.owners.items():
                    if owner == who or owner not in self.pair.clients:
                        self._done(who, 9, "queue.delete", queue=queue)
                for exchange in self.exchanges:
                    self._done(who, 9, "exchange.delete", exchange=exchange)
                self._done(who, 9, "channel.close")
            except (OSError, Closed, TimeoutError):
                self.pair.drop(who)

    def _done(self, who: str, channel: int, method: str, **args: Any) -> None:
        """Ask for something and pass over all else that comes until it is done."""
        client, end = self.pair.client(who), time.monotonic() + WAIT_S
        client.send(channel, method, **args)
        while True:
            event = client.read_event(max(0.0, end - time.monotonic()))
            if event.channel == channel and event.name == f"{method}-ok":
                return
            if event.channel == channel == 9 or event.channel == 0:
                raise Closed
