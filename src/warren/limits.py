"""Every bound a peer's input is held to, each with its unit and its reason.

A bound lives here when breaking it would cost memory, time or another client's share, so that one
page answers "how much can a client make us do". Values that RabbitMQ also has are RabbitMQ's.
"""

from __future__ import annotations

from typing import Final

# --- frames -------------------------------------------------------------------------------------

#: Bytes of a frame around its payload: 1 type, 2 channel, 4 size, 1 end marker.
FRAME_OVERHEAD_BYTES: Final = 8

#: Bytes before a frame's payload.
FRAME_HEADER_BYTES: Final = 7

#: Whole-frame limit offered in `connection.tune`, and what "no limit" (0) from a client means.
#: RabbitMQ's default; a body of any size still passes, cut into frames.
FRAME_BYTES_MAX: Final = 131_072

#: Whole-frame limit before `connection.tune-ok`: a stranger may not make us buffer more.
#: RabbitMQ's `initial_frame_max`.
INITIAL_FRAME_BYTES_MAX: Final = 8_192

#: The smallest frame limit a client may ask for in `connection.tune-ok` (RabbitMQ 4.1 and newer).
FRAME_BYTES_MIN: Final = 8_192

#: Bytes of payload forgiven above the negotiated limit, because clients exist that forget the
#: frame's own eight bytes. RabbitMQ forgives the same.
FRAME_SLACK_BYTES: Final = FRAME_OVERHEAD_BYTES

#: Highest channel number offered in `connection.tune`. RabbitMQ's default.
CHANNELS_MAX: Final = 2_047

# --- work of one turn of the node's loop ---------------------------------------------------------
# What a client or an operator can make arbitrarily many of is worked off in parts, so that nobody
# else waits for long: links count as down when they are silent for a second.

#: Snapshots that one turn writes; each costs some 20 us beside its bytes.
TURN_SNAPSHOTS_MAX: Final = 128

#: Bytes of snapshots behind which a turn writes no further one.
TURN_SNAPSHOT_BYTES_MAX: Final = 524_288

#: Connections whose timers one turn looks at; each costs about a microsecond a channel.
TURN_CONNECTIONS_MAX: Final = 512

#: Groups that one tick (20 a second) looks at, of those whose members may have to change.
TICK_GROUPS_MAX: Final = 512

#: Changes that a node has under way at once where it wants a great many, such as deleting what
#: belonged to a connection: about as many are applied in one turn.
CHANGES_AT_ONCE_MAX: Final = 256

# --- values -------------------------------------------------------------------------------------

#: Bytes of a short string: its length is one octet.
SHORTSTR_BYTES_MAX: Final = 255

#: Tables and arrays inside each other. Decoding recurses, so depth is stack; real headers nest
#: two or three deep (`x-death` is an array of tables). The number of elements needs no bound of
#: its own: an element takes at least one byte of a frame, which is bounded.
TABLE_NESTING_MAX: Final = 32

#: Body of one message, in bytes. RabbitMQ's `max_message_size`; more is refused with 406.
MESSAGE_BYTES_MAX: Final = 16_777_216

#: Body size above which RabbitMQ refuses a content header outright, with 501: its hard ceiling.
CONTENT_BYTES_MAX: Final = 536_870_912

#: Characters of a whole reply text, `CODE_NAME - ` included, so that it fits a short string.
REPLY_TEXT_CHARS_MAX: Final = 255

#: Record batches that one `table.read` answers with, at most, in bytes: they are in memory at once.
TABLE_READ_BYTES_MAX: Final = 16_777_216
