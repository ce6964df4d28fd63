"""Commands of RabbitMQ that Warren does not have: they say so, with the code for unavailable."""

from __future__ import annotations

from typing import Final

from warren.admin.cli.tools.command import (
    CTL,
    DIAGNOSTICS,
    NOT_BUILT,
    QUEUES,
    STREAMS,
    UNAVAILABLE,
    Failure,
    Output,
    ToolCommand,
    Words,
    add,
)
from warren.admin.cli.tools.session import ToolSession

NO_ERLANG: Final = "Warren runs on no Erlang"
NO_MIRRORS: Final = "there are no mirrored queues; quorum queues are replicated"
NO_STREAMS: Final = "there are no streams yet"
OF_THE_FILE: Final = "settings are not encrypted; keep the file where only its owner can read it"
NOT_COUNTED: Final = "messages are not counted by their sizes; queues count their bytes"
NOT_YET: Final = "this version of Warren does not have it"
BY_LOG: Final = "a node logs to its standard error stream"

ABSENT: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "sync_queue": ((CTL,), NO_MIRRORS),
    "cancel_sync_queue": ((CTL,), NO_MIRRORS),
    "remove_classic_queue_mirroring_from_policies": ((CTL,), NO_MIRRORS),
    "check_if_cluster_has_classic_queue_mirroring_policy": ((QUEUES, DIAGNOSTICS), NO_MIRRORS),
    "list_policies_with_classic_queue_mirroring": ((QUEUES, DIAGNOSTICS), NO_MIRRORS),
    "list_operator_policies_with_classic_queue_mirroring": ((QUEUES, DIAGNOSTICS), NO_MIRRORS),
    "force_boot": ((CTL,), "a node waits for a majority; see the guide on clusters"),
    "force_standalone_khepri_boot": ((CTL,), "there is no Khepri"),
    "rotate_logs": ((CTL,), f"{BY_LOG}, and what reads that has its files"),
    "rename_cluster_node": ((CTL,), "a node keeps its name"),
    "update_cluster_nodes": ((CTL,), "nodes find each other by their metadata"),
    "wait": ((CTL, DIAGNOSTICS), "there is no file with a process id: see await_startup"),
    "eval_file": ((CTL,), NO_ERLANG),
    "exec": ((CTL,), NO_ERLANG),
    "activate_free_disk_space_monitoring": ((CTL, DIAGNOSTICS), "the disk is always watched"),
    "deactivate_free_disk_space_monitoring": ((CTL, DIAGNOSTICS), "the disk is always watched"),
    "list_channel_interceptors": ((CTL, DIAGNOSTICS), NOT_YET),
    "set_channel_interceptor_priorities": ((CTL,), NOT_YET),
    "list_ciphers": ((CTL, DIAGNOSTICS), OF_THE_FILE),
    "list_hashes": ((CTL, DIAGNOSTICS), OF_THE_FILE),
    "encode": ((CTL,), OF_THE_FILE),
    "decode": ((CTL,), OF_THE_FILE),
    "encrypt_conf_value": ((CTL,), OF_THE_FILE),
    "decrypt_conf_value": ((CTL,), OF_THE_FILE),
    "force_checkpoint": ((QUEUES,), "queues write snapshots by themselves"),
    "stream_status": ((QUEUES, DIAGNOSTICS), NO_STREAMS),
    "coordinator_status": ((DIAGNOSTICS, STREAMS), NO_STREAMS),
    "add_replica": ((STREAMS,), NO_STREAMS),
    "delete_replica": ((STREAMS,), NO_STREAMS),
    "restart_stream": ((STREAMS,), NO_STREAMS),
    "set_stream_retention_policy": ((STREAMS,), NO_STREAMS),
    "metadata_store_status": ((DIAGNOSTICS,), "see `warren cluster status`"),
    "command_line_arguments": ((DIAGNOSTICS,), NOT_YET),
    "consume_event_stream": ((DIAGNOSTICS,), NOT_YET),
    "erlang_version": ((DIAGNOSTICS,), NO_ERLANG),
    "erlang_cookie_hash": ((DIAGNOSTICS,), NO_ERLANG),
    "erlang_cookie_sources": ((DIAGNOSTICS,), NO_ERLANG),
    "list_network_interfaces": ((DIAGNOSTICS,), NOT_YET),
    "log_tail": ((DIAGNOSTICS,), BY_LOG),
    "log_tail_stream": ((DIAGNOSTICS,), BY_LOG),
    "maybe_stuck": ((DIAGNOSTICS,), NO_ERLANG),
    "message_size_stats": ((DIAGNOSTICS,), NOT_COUNTED),
    "observer": ((DIAGNOSTICS,), NO_ERLANG),
    "remote_shell": ((DIAGNOSTICS,), NO_ERLANG),
    "disable_auth_attempt_source_tracking": ((DIAGNOSTICS,), NOT_YET),
    "enable_auth_attempt_source_tracking": ((DIAGNOSTICS,), NOT_YET),
    "resolver_info": ((DIAGNOSTICS,), NO_ERLANG),
    "runtime_thread_stats": ((DIAGNOSTICS,), NO_ERLANG),
}
"""By name, the tools that have it with RabbitMQ, and why Warren has not."""


def _unavailable(name: str, why: str) -> ToolCommand:
    def run(session: ToolSession, words: Words) -> Output:
        raise Failure(UNAVAILABLE, f"'{name}' is not available with Warren: {why}")

    return ToolCommand(name, ABSENT[name][0], "", NOT_BUILT, f"Not available: {why}", run, 0, -1)


add(*(_unavailable(name, why) for name, (_, why) in ABSENT.items()))
