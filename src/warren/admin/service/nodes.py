"""The cluster's nodes: what each is doing, what all know, and settings of one at run time."""

from __future__ import annotations

import logging
import os
from typing import Any, Literal

import msgspec

from warren.admin.compatible import RABBITMQ_FLAGS
from warren.admin.service.caller import MANAGEMENT, MONITORING, Caller
from warren.admin.service.everywhere import ask_all, others
from warren.admin.service.operation import operation
from warren.admin.service.rows import FeatureRow, NodeStatusRow, Status
from warren.admin.service.service import AdminService
from warren.admin.service.status import status_of
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.metadata.commands import RaiseVersion
from warren.protocols.broker import ALARM_DISK, ALARM_MEMORY
from warren.versions import FEATURES, NEWEST

ALL = "all"
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 1,
}
SHARE_MAX = 1.0
CHANNELS_PROPOSED_MAX = 65_535
VARIABLES = ("RABBITMQ_", "WARREN_")
SECRETS = ("SECRET", "PASS", "COOKIE")
"""Parts of names of variables that stay secret."""


@operation(MONITORING)
async def list_nodes(service: AdminService, caller: Caller) -> list[NodeStatusRow]:
    """List all nodes of the cluster, and what each says that it is doing."""
    answers = await ask_all(service, others(service), "status", {}, Status)
    told: dict[str, Status] = {service.own_name: await status_of(service), **answers.by_node}
    return [node_row(name, told.get(name)) for name in service.machine.nodes]


@operation()
async def environment(service: AdminService, caller: Caller) -> dict[str, Any]:
    """Show all settings that are in force on this node, by their keys, without secrets."""
    settings: dict[str, Any] = msgspec.to_builtins(service.host.configuration())
    return settings


@operation()
async def os_env(service: AdminService, caller: Caller) -> dict[str, str]:
    """Show the variables of this node's environment that it may go by, without secrets."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(VARIABLES) and not any(word in name for word in SECRETS)
    }


@operation(MANAGEMENT)
async def list_feature_flags(service: AdminService, caller: Caller) -> list[FeatureRow]:
    """List what not every release knows, and whether the whole cluster may use it.

    With them are RabbitMQ's flags of what is here: tools ask for these by name.
    """
    version = service.machine.version
    own = [
        FeatureRow(
            name=name,
            state="enabled" if since <= version else "disabled",
            stability="stable",
            provided_by="warren",
            desc=f"from cluster version {since} on",
            doc_url="",
        )
        for name, since in FEATURES.items()
    ]
    always = [
        FeatureRow(
            name=name,
            state="enabled",
            stability="required",
            provided_by="warren",
            desc="as in RabbitMQ, in every release",
            doc_url="",
        )
        for name in RABBITMQ_FLAGS
    ]
    return sorted(own + always, key=lambda row: row.name)


@operation()
async def enable_feature_flag(service: AdminService, caller: Caller, *, name: str) -> None:
    """Let the whole cluster use what its nodes know; it does so by itself, in a moment.

    Args:
        name: One of them, or `all`.

    Raises:
        Refusal: There is none of that name, some node does not know it, or there is no majority.
    """
    if name in RABBITMQ_FLAGS:
        return
    needed = NEWEST if name == ALL else FEATURES.get(name)
    if needed is None:
        raise Refusal(NOT_FOUND, f"feature flag '{name}' is not known")
    await service.catch_up()
    machine = service.machine
    known = machine.common_version()
    if name == ALL:
        needed = known
    if needed > known:
        behind = [node.name for node in machine.nodes.values() if node.version < needed]
        raise Refusal(
            PRECONDITION_FAILED,
            f"feature flag '{name}' is not supported by all nodes: not by {', '.join(behind)}",
        )
    if needed > machine.version:
        await service.change(RaiseVersion(needed))


@operation()
async def set_disk_free_limit(
    service: AdminService, caller: Caller, *, bytes: int = -1, mem_relative: float = -1.0
) -> int:
    """Have publishers wait from now on when less than so much of the disk is free; the bytes.

    It counts until the node stops.

    Args:
        mem_relative: In place of bytes, so many times the machine's memory.

    Raises:
        Refusal: It is no size.
    """
    if bytes < 0 and mem_relative < 0:
        raise Refusal(PRECONDITION_FAILED, "a limit is not negative")
    if bytes < 0:
        bytes = int(mem_relative * service.host.state().memory_total_bytes)
    service.host.guarded(lambda: service.node.log.set_disk_free_limit(bytes))
    return bytes


@operation()
async def set_vm_memory_high_watermark(
    service: AdminService, caller: Caller, *, relative: float = -1.0, absolute: int = -1
) -> int:
    """Have publishers wait from now on when this node has more memory; the bytes.

    It counts until the node stops.

    Args:
        relative: A share of the machine's memory.
        absolute: In place of a share, bytes.

    Raises:
        Refusal: It is no share and no size.
    """
    if absolute >= 0:
        limit = absolute
    elif 0.0 <= relative <= SHARE_MAX:
        limit = int(relative * service.host.state().memory_total_bytes)
    else:
        raise Refusal(PRECONDITION_FAILED, "The threshold should be a fraction between 0.0 and 1.0")
    # A limit of 0 would be none: publishers are to wait then.
    service.node.settings.memory_limit_bytes = max(limit, 1)
    # The alarm is raised, or over, before the operator goes on, and not at the next tick.
    used = service.host.state().memory_bytes
    service.host.guarded(lambda: service.node.weigh(used))
    service.host.after_event()
    return limit


@operation()
async def say_alarm(
    service: AdminService, caller: Caller, *, resource: Literal["memory", "disk"], raised: bool
) -> None:
    """Raise an alarm of this node, as tests of clients do, or end that.

    Publishers wait as if the node were short of it, until that is ended or the node stops. An alarm
    for what the node is short of stays.
    """
    alarm = ALARM_MEMORY if resource == "memory" else ALARM_DISK
    service.host.guarded(lambda: service.node.say_alarm(alarm, raised))
    service.host.after_event()


@operation()
async def set_channel_max(service: AdminService, caller: Caller, *, most: int) -> None:
    """Propose so many channels to clients that connect from now on, until the node stops.

    Raises:
        Refusal: There cannot be so many.
    """
    if not 0 <= most <= CHANNELS_PROPOSED_MAX:
        raise Refusal(
            PRECONDITION_FAILED, f"channel_max is a number from 0 to {CHANNELS_PROPOSED_MAX}"
        )
    service.node.settings.channel_max = most


@operation()
async def set_log_level(service: AdminService, caller: Caller, *, level: str) -> None:
    """Log only what is at least of this level from now on, until the node stops.

    Raises:
        Refusal: There is no such level.
    """
    if level not in LEVELS:
        known = ", ".join(LEVELS)
        raise Refusal(PRECONDITION_FAILED, f"level '{level}' is not known; it is one of {known}")
    logging.getLogger().setLevel(LEVELS[level])


@operation()
async def stop(service: AdminService, caller: Caller) -> None:
    """End this node in good order, soon after the answer."""
    service.host.stop(0)


def node_row(name: str, status: Status | None) -> NodeStatusRow:
    """The row of one node, by what it says; None where it said nothing."""
    if status is None:
        return NodeStatusRow(
            name=name,
            running=False,
            being_drained=False,
            version=None,
            os_pid=None,
            uptime=None,
            mem_used=None,
            mem_limit=None,
            mem_total=None,
            disk_free=None,
            disk_free_limit=None,
            fd_used=None,
            fd_total=None,
            connections=None,
            alarms=[],
            listeners=[],
            data_dir=None,
        )
    return NodeStatusRow(
        name=name,
        running=True,
        being_drained=status.drained,
        version=status.version,
        os_pid=status.process,
        uptime=status.uptime_seconds,
        mem_used=status.memory_bytes,
        mem_limit=status.memory_limit_bytes,
        mem_total=status.memory_total_bytes,
        disk_free=status.disk_free_bytes,
        disk_free_limit=status.disk_free_limit_bytes,
        fd_used=status.descriptors,
        fd_total=status.descriptors_max,
        connections=status.connections,
        alarms=status.alarms,
        listeners=status.addresses,
        data_dir=status.data_dir,
    )
