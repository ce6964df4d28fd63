"""What the nodes of a test say, asked without a process for each question."""

from __future__ import annotations

from typing import Any

import msgspec

from warren.admin.cli.asking import Contact, ask
from warren.admin.cli.queues import for_programs
from warren.admin.service.rows import QueueRow


def cluster_status(contact: Contact) -> list[Any]:
    """What `warren cluster status` shows: the cluster as the node sees it, with its queues."""
    answer = ask(*contact, ["status", {}])
    if answer[0] == "ok":
        queues = ask(*contact, ["list_queues", {}])
        if queues[0] != "ok":
            return queues
        rows = msgspec.convert(queues[1], list[QueueRow])
        answer[1]["queues"] = [for_programs(row) for row in rows]
    return answer
