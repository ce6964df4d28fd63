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

#: Properties of a message that somebody makes here who is no client with frames of its own, in
#: bytes: readers take them in one frame, whatever they agreed on with the usual maximum.
PROPERTIES_BYTES_MAX: Final = FRAME_BYTES_MAX - 4_096

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

#: Input that one turn handles of all connections that bring some, in bytes, in equal shares: some
#: milliseconds. What a publisher sends beyond its share stays in its socket for the next
#: turn, so that those who only acknowledge or ask do not wait for all that it has.
TURN_INPUT_BYTES: Final = 2_097_152

#: The least of such a share, in bytes: smaller ones cost more turns than they gain.
INPUT_SHARE_BYTES_MIN: Final = 8_192

#: The share of a connection with which no other competes, in bytes.
INPUT_ALONE_BYTES: Final = 4_194_304

#: Work that one turn does for what clients send and that is not in proportion to its bytes, in
#: steps: routes that are searched, queues that a message goes to, patterns that are matched. A step
#: is about a tenth of a microsecond. What is left of the input waits for the next turn.
TURN_STEPS_MAX: Final = 131_072

#: What one step counts for where a connection's share of a turn is reckoned in bytes of input.
STEP_BYTES: Final = 32

#: Steps that the route of one message may take, queues that it reaches not counted: some tens of
#: milliseconds. More is refused; exchanges with patterns that multiply are made to take this long.
ROUTE_STEPS_MAX: Final = 262_144

#: What a method of a client counts for, in steps; publishes and acknowledgements do not. Those of
#: exchanges and queues look at the tables and may change them; as much is done for a consumer that
#: comes, or goes with its channel.
METHOD_STEPS: Final = 64
TOPOLOGY_STEPS: Final = 256
CONSUMER_STEPS: Final = 256

#: Bytes of a message's headers that count for one step where they are decoded, to route by them,
#: and bytes of a method with its arguments.
HEADER_STEP_BYTES: Final = 4

#: What a queue counts for that a message goes to, in steps, if there are more than `QUEUES_FREE`.
QUEUE_STEPS: Final = 16
QUEUES_FREE: Final = 16

#: What a run of messages counts for, in steps, behind the first `RUNS_FREE` of a connection in a
#: turn: a publish that is not like the one before it, which costs some microseconds however short.
RUN_STEPS: Final = 32
RUNS_FREE: Final = 128

#: Queues that one turn has clients give something to do, acknowledgements not counted: each is
#: served then, for some ten microseconds. Publishes to further ones wait for the next turn.
FILLED_QUEUES_MAX: Final = 2_048

#: Queues that one turn puts one publish into, which are served then: some ten microseconds each.
#: The rest has it in later turns, and what comes on its channel waits until all have it.
FAN_OUT_QUEUES: Final = 1_024

#: Connections whose timers one turn looks at; each costs about a microsecond a channel.
TURN_CONNECTIONS_MAX: Final = 128

#: Members of groups that one turn tells of a node that came, went or is linked anew, or of a disk
#: that is slow or prompt: what follows, perhaps an election, costs some microseconds each.
TURN_MEMBERS_MAX: Final = 1_024

#: Queues that one turn tells that the line to their node is gone, or that there is one again, and
#: consumers that it has vanish with a line from another node: some microseconds each.
TURN_LINE_QUEUES_MAX: Final = 256

#: Snapshots on their way that one turn gives up, for their time is up or a link has broken: a copy
#: that was to take one over begins with nothing, for some 30 us.
TURN_TRANSFERS_MAX: Final = 128

#: Members with a time to mind that one turn looks at, to find those whose time is up: some
#: nanoseconds each. Where a node went that led all groups, all members have one.
TURN_TIMERS_MAX: Final = 16_384

#: Members whose time is up that one turn sees to: most of them stand for election then, and write
#: down that they do, for some ten microseconds each.
TURN_ELECTIONS_MAX: Final = 512

#: Bytes of a snapshot or a state from another node that one turn copies: some half a millisecond
#: for each megabyte, most of it the kernel's.
TURN_COPY_BYTES_MAX: Final = 2_097_152

#: What queues may take of one turn whose time has come: messages that may expire or be ready again,
#: at about a microsecond each, and `DUE_COST` for each queue.
TURN_DUE_WORK_MAX: Final = 8_192
DUE_COST: Final = 32

#: Changes of the cluster's tables that one turn puts in force, however many are committed at once,
#: as when a node has been away: a queue that begins or ends costs some 50 microseconds.
TURN_CHANGES_MAX: Final = 128

#: What one of these changes may cost, in steps: what costs more, as where patterns of policies are
#: matched with its name, or where its arguments are long, counts as several.
CHANGE_STEPS: Final = TURN_STEPS_MAX // TURN_CHANGES_MAX

#: Groups that one tick (20 a second) looks at, of those whose members may have to change, or whose
#: leader its place.
TICK_GROUPS_MAX: Final = 512

#: For an observer that is behind so much is read from disk, in reads; then it gets the state.
FEED_READS_MAX: Final = 16

#: Of one group's newest entries a node keeps so much in memory once they are durable.
GROUP_RECENT_BYTES_MAX: Final = 4_194_304

#: Nodes that vote in the group of the tables; in a larger cluster the others learn, so that
#: a change waits for four disks at most and an election for four answers.
TABLES_VOTERS_MAX: Final = 7

#: Queues that one turn treats of those that a node is taken out of, or gets other copies of: each
#: costs some 30 microseconds, with what the node has to do about it.
QUEUES_AT_ONCE_MAX: Final = 256

#: Groups about which a node asks another one in one message, for operators: answering costs about a
#: microsecond each.
GROUPS_ASKED_MAX: Final = 1_024

#: Changes that a node has under way at once where it wants a great many, such as deleting what
#: belonged to a connection: about as many are applied in one turn.
CHANGES_AT_ONCE_MAX: Final = 256

#: Bindings that are looked at to find out whether an exchange goes with a queue that is about to
#: go: a millisecond. Who asks waits for some of the queues that go next where that does not tell.
SEARCH_STEPS_MAX: Final = 4_096

#: Users and vhosts whose counts one message between nodes has: some 30 KB.
USED_AT_ONCE_MAX: Final = 1_024

#: Users, and vhosts, whose counts are kept of one other node: some 40 MB. That node says them of
#: those that have limits and clients there.
USED_NAMES_MAX: Final = 131_072

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

#: Groups of readers that a queue has, as far as clients may make more: each is in its snapshots.
READER_GROUPS_MAX: Final = 1_024

# --- content ------------------------------------------------------------------------------------

#: Payload of a body frame that is kept as it came, in bytes, all but a message's last: its framing
#: is less than 0.2 % of it. From the first smaller one on, a body is cut anew.
BODY_FRAME_BYTES_MIN: Final = 4_096

#: Payload of a body frame that is cut anew, in bytes: what most readers take as it is.
BODY_FRAME_BYTES_CUT: Final = FRAME_BYTES_MAX - FRAME_OVERHEAD_BYTES

#: Body frames without a body in one message. They mean nothing and are not kept, but each is work:
#: a client may send a few, and only who is broken or hostile this many (800 kB of frames).
EMPTY_FRAMES_MAX: Final = 100_000

#: What a record has beside its body, in bytes: the frames of method and header, which `frame_max`
#: bounds (its default here), and the framing of `CONTENT_BYTES_MAX` in the smallest frames kept.
RECORD_OVERHEAD_BYTES_MAX: Final = (
    2 * FRAME_BYTES_MAX + (CONTENT_BYTES_MAX // BODY_FRAME_BYTES_MIN + 2) * FRAME_OVERHEAD_BYTES
)

#: Bodies of which a part is still to come, in bytes, on one connection (or one message of
#: `max_message_size`, if that is more): a publisher on each of eight channels with the largest
#: message by default. A client could begin one on each of its channels and never end any.
ASSEMBLY_BYTES_MAX: Final = 134_217_728

#: The same on a node without a memory alarm. With one, `ASSEMBLY_SHARE` of its limit: what is held
#: back by the alarm has to be less than what raises it, or it would never clear.
NODE_ASSEMBLY_BYTES_MAX: Final = 1_073_741_824
ASSEMBLY_SHARE: Final = 4

# --- the disk -----------------------------------------------------------------------------------

#: Appended and not durable yet, in bytes, for the whole node: with more the disk counts as behind,
#: until half of it is left. Four full rounds of the log, so that no disk is idle meanwhile. As much
#: may be submitted to leaders and not be applied yet, for all queues of the node.
DISK_WAITING_BYTES_MAX: Final = 134_217_728

#: A write that takes longer, in milliseconds, shows a disk that hangs. Disks that share a machine
#: with others stall for some hundred milliseconds at times, and nobody is the worse for it.
DISK_STALL_MS_MAX: Final = 2_000

#: A disk that stays behind for so long, in milliseconds, is too slow for what comes.
DISK_BEHIND_MS_MAX: Final = 5_000

#: How long a disk has to keep up, in milliseconds, before its node is fit to lead again.
DISK_PROMPT_MS: Final = 5_000

#: How long a leader whose disk is slow waits at most, in milliseconds, before it offers its lead
#: again to members that could not take it: proposals stop for a second each time.
HAND_OVER_PAUSE_MS_MAX: Final = 32_000

#: An orderly stop waits so long, in seconds, for a disk that ends nothing of what is under way, and
#: then ends without: a read is given up after as long, and service managers wait longer.
STOP_STALL_SECONDS_MAX: Final = 10.0

# --- access -------------------------------------------------------------------------------------

#: Tags of one user or vhost. RabbitMQ's bound for users.
TAGS_MAX: Final = 32

#: Bytes of a pattern in permissions, for each is matched against names: RabbitMQ's bound.
PATTERN_BYTES_MAX: Final = 1_024

#: Steps that the patterns of all policies of a vhost may take for one name, which a queue that is
#: declared has matched with all of them: some 30 ms. `^orders[.]` takes 2, `^.*orders.*$` 515.
POLICY_STEPS_MAX: Final = 262_144

#: Bytes of a vhost's description: it stands in each snapshot of the tables.
DESCRIPTION_BYTES_MAX: Final = 4_096

# --- definitions --------------------------------------------------------------------------------

#: What arguments of one queue, exchange or binding, or the definition of one policy, may take in
#: memory, in bytes, on each node of the cluster: some hundred short ones take a fifth of it.
DEFINITION_BYTES_MAX: Final = 131_072

#: The same of what a client says of itself as it connects, and of the arguments of a consumer: both
#: are kept for as long as these are there, and there may be very many.
PROPERTIES_WEIGHT_MAX: Final = 65_536
CONSUMER_WEIGHT_MAX: Final = 16_384

#: The same of definitions while a node is short of memory: what consumers declare that come to
#: drain queues fits.
DEFINITION_BYTES_SHORT: Final = 4_096

#: All definitions may take so large a part of the memory limit, and at least so many bytes, where
#: the configuration does not say; without a limit, some hundreds of thousands of queues.
METADATA_SHARE: Final = 2
METADATA_BYTES_MIN: Final = 67_108_864
METADATA_BYTES_UNLIMITED: Final = 2_147_483_648

# --- exchanges ----------------------------------------------------------------------------------

BINDINGS_AT_ONCE_MAX: Final = 1_024
"""Bindings that go with a queue or an exchange in one turn: 100,000 would take a tenth of a
second."""

RECENT_COUNT: Final = 20
"""Messages that an exchange of type `x-recent-history` keeps where it does not say: RabbitMQ's."""

RECENT_COUNT_MAX: Final = 1_024
"""Messages that one may keep: who binds a queue to it has them routed in one turn."""

RECENT_MESSAGE_BYTES_MAX: Final = 262_144
RECENT_BYTES_MAX: Final = 1_048_576
RECENT_TOTAL_BYTES_MAX: Final = 16_777_216
"""Bytes of a message that is kept, of all that one exchange keeps, and of all that the tables of a
cluster do: every node has them in memory, and in each snapshot of the tables."""
