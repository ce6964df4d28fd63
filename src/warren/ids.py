"""What the bits of every identity mean, once. All are signed 64-bit numbers, and 0 or more.

A *life* is the log index, in the tables, of the entry that began the life of a node (`NodeUp`) or
gave it further sessions (`MoreSessions`). So lives ascend, and none is given twice; 0 is no life.

What a node gives out by itself, so that no other node gives the same: incarnations of queues
(which are the ids of their groups) and of their members, connections (which own exclusive queues),
lines to other nodes, and consumers of classic queues on other nodes.

     63 62                            32 31                             0
    +--+--------------------------------+--------------------------------+
    | 0|              life              |            counter             |
    +--+--------------------------------+--------------------------------+

A session of a node, in which it submits to a group. Each time other members close it, the next
epoch of its life begins.

     63              39 38                               8 7            0
    +------------------+----------------------------------+--------------+
    | 0                |               life               |    epoch     |
    +------------------+----------------------------------+--------------+

A consumer of a quorum queue. All members can tell from it whose consumer it is, and that it ends
with its session.

     63 62                            32 31          24 23              0
    +--+--------------------------------+--------------+-----------------+
    | 0|              life              |    epoch     |     number      |
    +--+--------------------------------+--------------+-----------------+
       |<------------------ session ------------------>|

The fields of one identity are asserted where it is made from what this node counts itself. Those
that clients drive are bounded, so that no two things ever have one identity:

    counter   2^32 - 1 declarations, connections or consumers in one life of a node: further ones
              are refused (`node.identities`) until the node is started again
    life      2^31 - 1 changes of the tables: no life of a node begins behind them, and none gets
              more sessions (`may_begin`); nodes that run go on

What comes from other nodes or from the log is taken apart as it is.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

COUNTER_BITS: Final = 32
EPOCH_BITS: Final = 8
NUMBER_BITS: Final = 24
"""An epoch and a number take the room of a counter: `life_of` is true of consumers, too."""

LIFE_MAX: Final = (1 << 31) - 1
COUNTER_MAX: Final = (1 << COUNTER_BITS) - 1
EPOCH_MAX: Final = (1 << EPOCH_BITS) - 1
NUMBER_MAX: Final = (1 << NUMBER_BITS) - 1

LIVES_FEW: Final = LIFE_MAX - (1 << 27)
"""Behind this entry of the tables, of 2^31, an operator is told that they come to an end."""


def of_life(life: i64, counter: i64) -> i64:
    """What a node gives out as the `counter`-th of its kind in a life of its own."""
    assert life >= 0 and counter >= 0, "lives and counters only ascend from 0"
    assert life <= LIFE_MAX and counter <= COUNTER_MAX, "both are bounded by who gives them"
    return (life << COUNTER_BITS) + counter


def may_begin(index: i64) -> bool:
    """Whether an entry of the tables may stand for a life."""
    return index <= LIFE_MAX


def life_of(identity: i64) -> i64:
    """The life in which a node gave an identity out; 0 if it knew no cluster."""
    return identity >> COUNTER_BITS


def first_session(life: i64) -> i64:
    """The session with which a life begins in each group; 0, which is none, for no life."""
    assert life >= 0, "lives only ascend from 0"
    return life << EPOCH_BITS


def life_of_session(session: i64) -> i64:
    """The life that a session belongs to."""
    return session >> EPOCH_BITS


def epoch_of(session: i64) -> i64:
    """Which of the sessions of its life a session is, from 0 to `EPOCH_MAX`."""
    return session & EPOCH_MAX


def consumer_of(session: i64, number: i64) -> i64:
    """The consumer of a quorum queue that has a number in a session."""
    assert session >= 0 and 0 <= number <= NUMBER_MAX, "numbers are bounded by who gives them"
    return (session << NUMBER_BITS) + number


def session_of_consumer(consumer_id: i64) -> i64:
    """The session that a consumer of a quorum queue ends with."""
    return consumer_id >> NUMBER_BITS


def number_of_consumer(consumer_id: i64) -> i64:
    """The number of a consumer in its session."""
    return consumer_id & NUMBER_MAX
