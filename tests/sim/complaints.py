"""What each planted bug has to make the simulator complain of: who complains, and in which words.

Any other complaint does not count. It would come, too, from a checker that is wrong, or from one
that only meets what the bug leaves behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple


class Complaint(NamedTuple):
    """A complaint.

    Attributes:
        checker: Module that makes it, without `sim`; an assertion of the node's own comes from
            `warren`.
        words: Pattern of what it says somewhere.
    """

    checker: str
    words: str

    def is_of(self, checker: str, complaint: str) -> bool:
        """Whether a run has complained of this."""
        module = self.checker if self.checker.startswith("warren.") else f"sim.{self.checker}"
        return checker == module and re.search(self.words, complaint) is not None


LOST: Final = Complaint("checkers.loss", "confirmed messages of queue .* are lost")
LOST_IN_CLUSTERS: Final = Complaint("cluster.checkers", LOST.words)
NOT_WHOLE: Final = Complaint("world", "the node does not start: .* (damaged|is missing)")
HELD: Final = Complaint("drain", "has [0-9]+ messages held, clients [0-9]+")
STUCK: Final = Complaint("drain", "requests and publishes are not answered .* holds [1-9]")
AGAIN: Final = Complaint("checkers.delivery", "came again to .* without redelivered")
BEYOND: Final = Complaint("checkers.delivery", "after [0-9]+ rejections, with a limit of")
REPLAY: Final = Complaint("checkers.replay", "an orderly stop changed|snapshot and tail give")
STATE: Final = Complaint("cluster.ledger", "has another state than its entries give")
OBSERVER: Final = Complaint("cluster.ledger", "an observer, has another state than its entries")
UNKNOWN: Final = Complaint("cluster.world", "messages are held of which no client knows")
STAYS: Final = Complaint("cluster.world", "messages stay in the nodes")
UNANSWERED: Final = Complaint("cluster.world", "requests and publishes are not answered")
COMMITTED: Final = Complaint("cluster.ledger", "was confirmed before it was committed")
NO_MAJORITY: Final = Complaint("cluster.vouching", "is applied while only .* has it on disk")
UNTOLD: Final = Complaint("cluster.world", "who held messages for too long is not told")
NEVER_CAME: Final = Complaint("carried", "were confirmed, and have not come")
NEVER_CAME_IN_CALM: Final = Complaint("cluster.world", "what died in a calm time does not arrive")
NOT_ALL_TOLD: Final = Complaint("told", "a feed does not tell all")
NOT_DONE: Final = Complaint("told", "a feed tells what was not done")
TRIAL: Final = Complaint("trials", "[0-9]+ is (gone|ready), not \\['(gone|ready|rejected)'\\]")

COMPLAINTS: Final = {
    # One node.
    "skipped_sync": NOT_WHOLE,
    "quorum_confirms_at_append": LOST,
    "rejected_is_confirmed": LOST,
    "classic_confirms_at_append": LOST,
    "unchecked_tail": NOT_WHOLE,
    "live_without_held": STUCK,
    "no_doubt": AGAIN,
    "snapshot_of_what_is_ahead": Complaint("warren.queues.fifo.machine", "message numbers ascend"),
    "settles_neighbour": HELD,
    "forgotten_reset": HELD,
    "forgotten_live_run": STUCK,
    "no_redelivered": AGAIN,
    "eager_redelivered": Complaint("checkers.delivery", "redelivered, though to nobody before"),
    "spurious_return": Complaint("publisher", "came back, though its queue is there"),
    "spurious_nack": Complaint("publisher", "was refused for no reason"),
    "first_of_a_run": Complaint("connection", "a message says who had a blind copy"),
    "snapshot_ahead": REPLAY,
    "surviving_transients": REPLAY,
    "unfenced": Complaint("checkers.checkouts", "a call of epoch .* though epoch .* had begun"),
    "ignored_limit": Complaint("consumer", "unsettled with a limit of"),
    "unfailing_rejections": BEYOND,
    "ignored_limit_of_its_own": BEYOND,
    "unsynced_manifest": Complaint("world", "the node does not start: .* is missing"),
    "writes_to_the_closed": Complaint("connection", "unable to perform operation on .* closed"),
    "goes_on_after_failure": Complaint("warren.log.reading", "CorruptRecord: .* damaged at byte"),
    "refused_once_is_damage": Complaint("world", "does not start: .* it cannot be read"),
    # Clusters.
    "unpersisted_vote": Complaint("cluster.vouching", "forgot (its vote for|term)"),
    "failed_writes_are_good": Complaint("cluster.site", "goes on after its disk has failed"),
    "early_apply": NO_MAJORITY,
    "confirms_at_submit": COMMITTED,
    "stamps_by_wall": Complaint("cluster.ledger", "entry [0-9]+ is of [0-9]+, behind"),
    "damage_unheeded": Complaint("cluster.site", "goes on with a log that lacks something"),
    "same_name": Complaint("cluster.vouching", "goes on with an older copy"),
    "leases_by_wall": Complaint("cluster.ledger", "the lease of .* ended after"),
    "lost_resend": Complaint("cluster.world", "not all nodes come up|are not answered"),
    "unchecked_sequence": Complaint("cluster.ledger", "entry .* is #.* of session .*, behind #"),
    "open_sessions": UNKNOWN,
    "reopened_sessions": Complaint("cluster.ledger", "is of session [0-9]+, closed before"),
    "ignored_truncation": Complaint("cluster.network", "is refused: batches .* does not follow"),
    "snapshot_without_sessions": UNKNOWN,
    "added_restore": STATE,
    "raft_unheeded": Complaint("cluster.network", "takes what .* did not send"),
    "forgotten_pending": Complaint("warren.raft.raft", "the runs end where the log ends"),
    "what_is_gone_stays": Complaint("cluster.world", "not all nodes come up"),
    "followers_hand_out_nothing": STATE,
    "unheard_restart": UNKNOWN,
    "replays_closed": STATE,
    "kept_by_the_gone": STATE,
    "returns_unmarked": AGAIN,
    "ready_after_a_part": STATE,
    "snapshot_without_a_run": STAYS,
    "stale_get": STATE,
    "line_holds_on": STAYS,
    "confirms_what_it_sends": Complaint("incarnations", LOST.words),
    "confirms_what_is_lost": Complaint("incarnations", LOST.words),
    "returns_out_of_order": Complaint("short_lived", "came to .* behind a later one"),
    "eager_deletion": Complaint("cluster.ledger", "of the tables deletes .* of the same name"),
    "open_to_all": Complaint("incarnations", "went, though nobody deleted it"),
    "outlives_its_connection": Complaint("cluster.world", "exclusive queues outlive"),
    "outlives_its_process": Complaint("cluster.healing", "has outlived the process it lived in"),
    # Nodes that hold nothing of what they use.
    "stays_with_the_lost": UNANSWERED,
    "applies_again": OBSERVER,
    "shows_another_body": AGAIN,
    "reads_past_damage": STAYS,
    "offers_once": UNANSWERED,
    "wrong_count": OBSERVER,
    "skips_an_entry": OBSERVER,
    "counts_no_bytes": OBSERVER,
    "forgets_what_polls_were_given": AGAIN,
    "finds_no_answers": UNKNOWN,
    "keeps_its_session": UNANSWERED,
    # Dead letters, and what waits.
    "settled_unconfirmed": NEVER_CAME_IN_CALM,
    "settled_when_sent": NEVER_CAME,
    "given_up": Complaint("cluster.world", "dead letters do not arrive"),
    "left_out_of_snapshots": STATE,
    "lost_alone": NEVER_CAME_IN_CALM,
    "led_before": Complaint("dead_letters", "got letter [0-9]+, which had arrived before"),
    "half_of_the_limit": Complaint("dead_letters", "died of delivery_limit, but it failed"),
    "sent_again_by_the_next": NEVER_CAME_IN_CALM,
    "delays_left_out_of_snapshots": STATE,
    "taken_further_by_rafts_entries": STATE,
    "gone_when_sent": NEVER_CAME,
    "retries_left_out_of_snapshots": STATE,
    "nobody_looks": STAYS,
    "never_heard_again": Complaint("cluster.world", "nodes that are heard stay suspected"),
    "too_soon": Complaint("delays", "got message [0-9]+ [0-9]+ ms before its time"),
    # Queues that expire, reject elsewhere, time consumers out, or serve one at a time.
    "lower_first": Complaint("checkers.ranks", "came to .* behind one of priority"),
    "consumers_use_nothing": Complaint("expiring", "queue idle went after .* without use"),
    "used_ones_go": Complaint("expiring", "queue idle went after .* without use"),
    "goes_early": Complaint("expiring", "queue idle went after .* without use"),
    "stays": Complaint("cluster.world", "a queue that nobody uses (any more )?stays"),
    "queued_and_rejected": Complaint("rejecting", "was both queued and dead-lettered"),
    "rejected_twice": Complaint("rejecting", "got narrow message .* twice"),
    "rejected_nowhere": Complaint("cluster.world", "what was rejected does not come"),
    "untold": UNTOLD,
    "untold_by_states": UNTOLD,
    "too_early": STATE,
    "one_account": Complaint("cluster.stranding", "bytes for a queue without a majority"),
    "several_active": Complaint("cluster.checkers", "while .* is the active consumer"),
    "forgets_whose_turn": STATE,
    "expired_are_lost": NEVER_CAME,
    "shares_an_epoch": Complaint("checkers.checkouts", "epoch [0-9]+, though there were"),
    # Messages that die and come back.
    "goes_round": Complaint("hops", "which went round with nobody rejecting it"),
    "goes_round_at_least_once": Complaint("hops", "which went round with nobody rejecting it"),
    "hops_twice": Complaint("hops", "for the [0-9]+th time, and it was rejected"),
    # Queues of one and two voters.
    "waits_for_the_other": Complaint("cluster.world", "a queue has no leader within"),
    "waits_for_what_is_gone": Complaint("cluster.world", "messages do not come out within"),
    "numbers_go_on": Complaint("cluster.world", "publishes are not confirmed within"),
    # Feeds.
    "confirmed_twice": NOT_DONE,
    "of_another_queue": Complaint("checkers.told", "as is told, and .* in the log of the queue"),
    "followers_tell": NOT_DONE,
    "leads_without_a_word": Complaint("checkers.told", "and not that it leads"),
    "acked_when_rejected": NOT_ALL_TOLD,
    "first_of_a_row": NOT_ALL_TOLD,
    "counts_anew": Complaint("checkers.told", "has told two blocks of number"),
    "counts_bytes_of_the_first": Complaint("checkers.told", "bytes .* in the log of the queue"),
    "by_its_own_clock": Complaint("checkers.told", "came at .* in the log of the queue"),
    "lost_in_a_jam": Complaint("checkers.told", "blocks of .* are missing"),
    # Groups of readers.
    "takes_settled_ones_again": Complaint("checkers.checkouts", "was taken again, though those"),
    "forgets_a_row": LOST_IN_CLUSTERS,
    "settles_for_an_old_reader": Complaint("checkers.checkouts", "passed, though epoch"),
    "begins_anew": Complaint("checkers.checkouts", "epoch [0-9]+, though there were"),
    # Policies.
    "forgets_what_it_keeps": Complaint("governed", "were confirmed, and are nowhere"),
    "loses_what_is_under_way": TRIAL,
    "forgets_priorities": Complaint("checkers.ranks", "came to .* behind one of priority"),
    "lives_change_nothing": TRIAL,
    "lives_change_all": TRIAL,
    "stands_still_behind_a_jump": TRIAL,
    "one_more_by_policy": TRIAL,
    "one_less_in_the_log": STATE,
    "comes_again_early": Complaint("trials", "got message [0-9]+ again after [0-9]+ ms"),
    "holds_for_the_longer": Complaint("cluster.world", "for too long is not told within"),
    "fails_in_time": Complaint("trials", "message [0-9]+ was delivered 0 times, not 1"),
    "rejects_to_exchange_for_good": Complaint("trials", "is maxlen and refused, not"),
    # Raft.
    "blind_vote": Complaint("cluster.ledger", "applied .* as entry [0-9]+, others"),
    "counts_memory": Complaint("cluster.vouching", "lost entry|has it on disk"),
    "acknowledges_memory": NO_MAJORITY,
    "counts_learners": NO_MAJORITY,
    "half_is_enough": NO_MAJORITY,
    "three_are_enough": NO_MAJORITY,
    "commits_unvalidated": Complaint("cluster.network", "is refused: .* does not follow entry"),
    "doubled_append_cuts": Complaint("cluster.network", "its leader contradicts itself at entry"),
    "configured_at_commit": NO_MAJORITY,
    # Limits, times to live, routes and replies.
    "expires_early": Complaint("dead_letters", "died of expired, but it had [0-9]+ ms left"),
    "expires_by_arrival_elsewhere": Complaint("dead_letters", "died of expired, but it had"),
    "tells_another_reason": Complaint("dead_letters", "died of rejected, but nobody rejected it"),
    "one_too_many": Complaint("room", "a queue holds [0-9]+ messages .* with limits of"),
    "one_more_behind_a_snapshot": STATE,
    "never_has_room_again": Complaint("drain", "is empty, and rejects a publish"),
    "returns_count_for_nothing": Complaint("room", "a queue holds [0-9]+ messages"),
    "purges_what_is_held": Complaint("consumer", "unsettled with a limit of"),
    "rolls_nothing_back": Complaint("checkers.delivery", "rolled back.* came out of queue"),
    "leads_nowhere": COMMITTED,
    "answers_somebody": Complaint("replies", "got answer .* of another channel"),
    "answers_twice": Complaint("replies", "got answer .* oftener than it was given"),
    "address_outlives_its_channel": Complaint("replies", "got answer .* of another channel"),
    "favours_nobody": Complaint("replies", "got request .*, which .* was to have"),
    # What operators do by force, vhosts that come and go.
    "lost_leader_leads_on": Complaint("cluster.world", "a copy does not go on alone by force"),
    "forced_unasked": Complaint("cluster.forced", "nobody had to say --force"),
    "clients_outlive_their_vhost": Complaint("cluster.vhosts", "is open yet, while"),
    "another_vhost": Complaint("cluster.vhosts", "got message .* of vhost .* in vhost"),
    "another_vhost_goes": Complaint("cluster.vhosts", "had vhost lasting .*, and has none"),
}


def complaint_of(plant: Callable[..., Any]) -> Complaint:
    """What a planted bug has to cause."""
    return COMPLAINTS[plant.__name__]
