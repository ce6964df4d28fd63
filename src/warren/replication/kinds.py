"""Every kind of message between nodes, once: its number, which way it goes, and who draws it.

A message begins with its kind, one octet. From `FIRST_OF_GROUP` on, the group that it is about
follows, i64, and messages of different groups may overtake each other; from `FIRST_OF_LINE` on, the
number of a line follows that. From `FIRST_OF_REPLIES` on it is no group but a number of the
sender, and there is no line. A new kind takes a free number of its part, and comes with a cluster
version (`warren.versions`) from which on it is sent: a node takes one that it does not know for
damage, or passes it over, as the part does to which the number belongs.
"""

from __future__ import annotations

from typing import Final, final

PING: Final = 1
PONG: Final = 2
JOIN: Final = 3
JOINED: Final = 4
COMMAND: Final = 5
TRANSFER: Final = 6
ASK: Final = 7
TOLD: Final = 8
RENEW: Final = 9
DURABLE: Final = 10
LEAVE: Final = 11
LEFT: Final = 12
WHO_LEADS: Final = 13
THEY_LEAD: Final = 14
USED: Final = 15

FIRST_OF_GROUP: Final = 16
RAFT: Final = 16
PROPOSE: Final = 17
EXPECT: Final = 18
SNAPSHOT: Final = 19
OBSERVE: Final = 20
FETCH: Final = 21
UNOBSERVE: Final = 22
FEED: Final = 23
STATE: Final = 24
BODIES: Final = 25

FIRST_OF_LINE: Final = 32
OPEN: Final = 32
OPENED: Final = 33
CLOSED: Final = 34
MESSAGES: Final = 35
COMMANDS: Final = 36
STORED: Final = 37
REPLY: Final = 38
DELIVER: Final = 39
GRANT: Final = 40
HOLD: Final = 41
CLOSE: Final = 42

FIRST_OF_REPLIES: Final = 48
DIRECT: Final = 48
SEEK: Final = 49
SOUGHT: Final = 50

ALL: Final = "any node to any"
ASKS: Final = "a node to one that it asks"
ANSWERS: Final = "a node to one that asked it"
JOINS: Final = "a node without a cluster to one that has one"
TAKES_IN: Final = "a node to one that joins"
TO_TABLES: Final = "a node to who leads the tables"
TO_LEADER: Final = "a node to who leads the group"
FROM_LEADER: Final = "who leads the group to a node"
MEMBERS: Final = "a member to another"
TO_MEMBER: Final = "an observer to a member"
FROM_MEMBER: Final = "a member to an observer"
OBSERVING: Final = "either way between a member and an observer"
TO_HOME: Final = "a queue's proxy to its node"
FROM_HOME: Final = "a queue's node to its proxy"

DISKS: Final = "node/cluster/disks.py"
MEMBERSHIP: Final = "node/cluster/membership.py"
QUEUE_MEMBERS: Final = "node/cluster/queue_members.py"
USAGE: Final = "node/usage.py"
FRAMES: Final = "replication/frames.py"
TRANSFERS: Final = "node/cluster/transfer.py"
OBSERVING_FRAMES: Final = "replication/observing_frames.py"
LINES: Final = "node/remote/frames.py"
REPLIES: Final = "node/direct_replies.py"


@final
class Kind:
    """One kind of message.

    Attributes:
        number: The octet.
        name: That of the constant above.
        way: From whom to whom it goes.
        drawn_in: The module, below `warren`, whose head draws what follows.
    """

    def __init__(self, number: int, name: str, way: str, drawn_in: str) -> None:
        self.number: int = number
        self.name: str = name
        self.way: str = way
        self.drawn_in: str = drawn_in


KINDS: Final = [
    Kind(PING, "PING", ALL, DISKS),
    Kind(PONG, "PONG", ANSWERS, DISKS),
    Kind(JOIN, "JOIN", JOINS, MEMBERSHIP),
    Kind(JOINED, "JOINED", TAKES_IN, MEMBERSHIP),
    Kind(COMMAND, "COMMAND", TO_TABLES, MEMBERSHIP),
    Kind(TRANSFER, "TRANSFER", TO_LEADER, QUEUE_MEMBERS),
    Kind(ASK, "ASK", ASKS, QUEUE_MEMBERS),
    Kind(TOLD, "TOLD", ANSWERS, QUEUE_MEMBERS),
    Kind(RENEW, "RENEW", ASKS, QUEUE_MEMBERS),
    Kind(DURABLE, "DURABLE", ALL, MEMBERSHIP),
    Kind(LEAVE, "LEAVE", ASKS, QUEUE_MEMBERS),
    Kind(LEFT, "LEFT", ANSWERS, QUEUE_MEMBERS),
    Kind(WHO_LEADS, "WHO_LEADS", ASKS, QUEUE_MEMBERS),
    Kind(THEY_LEAD, "THEY_LEAD", ANSWERS, QUEUE_MEMBERS),
    Kind(USED, "USED", ALL, USAGE),
    Kind(RAFT, "RAFT", MEMBERS, FRAMES),
    Kind(PROPOSE, "PROPOSE", TO_LEADER, FRAMES),
    Kind(EXPECT, "EXPECT", FROM_LEADER, FRAMES),
    Kind(SNAPSHOT, "SNAPSHOT", MEMBERS, TRANSFERS),
    Kind(OBSERVE, "OBSERVE", TO_MEMBER, OBSERVING_FRAMES),
    Kind(FETCH, "FETCH", TO_MEMBER, OBSERVING_FRAMES),
    Kind(UNOBSERVE, "UNOBSERVE", OBSERVING, OBSERVING_FRAMES),
    Kind(FEED, "FEED", FROM_MEMBER, OBSERVING_FRAMES),
    Kind(STATE, "STATE", FROM_MEMBER, OBSERVING_FRAMES),
    Kind(BODIES, "BODIES", FROM_MEMBER, OBSERVING_FRAMES),
    Kind(OPEN, "OPEN", TO_HOME, LINES),
    Kind(OPENED, "OPENED", FROM_HOME, LINES),
    Kind(CLOSED, "CLOSED", FROM_HOME, LINES),
    Kind(MESSAGES, "MESSAGES", TO_HOME, LINES),
    Kind(COMMANDS, "COMMANDS", TO_HOME, LINES),
    Kind(STORED, "STORED", FROM_HOME, LINES),
    Kind(REPLY, "REPLY", FROM_HOME, LINES),
    Kind(DELIVER, "DELIVER", FROM_HOME, LINES),
    Kind(GRANT, "GRANT", TO_HOME, LINES),
    Kind(HOLD, "HOLD", FROM_HOME, LINES),
    Kind(CLOSE, "CLOSE", TO_HOME, LINES),
    Kind(DIRECT, "DIRECT", ALL, REPLIES),
    Kind(SEEK, "SEEK", ASKS, REPLIES),
    Kind(SOUGHT, "SOUGHT", ANSWERS, REPLIES),
]
"""All there are, by number."""
