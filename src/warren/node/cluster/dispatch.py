"""This node among others: its session, its members of groups, and what is said between nodes."""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.ids import life_of_session
from warren.limits import TICK_GROUPS_MAX, TURN_ELECTIONS_MAX, TURN_MEMBERS_MAX
from warren.log.group import GroupLog
from warren.log.log import Log
from warren.metadata.machine import MetadataMachine
from warren.node.beginnings import Beginning
from warren.node.cluster.detector import Detector, DetectorOptions, PeerChange
from warren.node.cluster.disks import BEHIND, PING_BYTES, Disks
from warren.node.cluster.transfer import Transfers
from warren.node.early import EarlyFrame, EarlyFrames
from warren.node.loop import Loop
from warren.node.store import METADATA_GROUP
from warren.ports import PeerHello, PeerListener, Peers, Random
from warren.protocols.peer import refusal
from warren.raft.effects import AcceptSnapshot, SendSnapshot
from warren.raft.state import Options
from warren.replication import frames, kinds
from warren.replication.host import MemberHost
from warren.replication.machine import Machine
from warren.replication.member import Member
from warren.replication.proposals import Load, Proposals
from warren.replication.recovered import Recovered
from warren.replication.throttle import Throttle
from warren.sharded_dict import ShardedDict
