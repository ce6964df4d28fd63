"""What the nodes of a test say, asked without a process for each question."""

from __future__ import annotations

from typing import Any

from warren.admin.cli.asking import Contact, ask


def cluster_status(contact: Contact) -> list[Any]:
    """What `warren cluster status` shows: the cluster as the node sees it, with its queues."""
    answer = ask(*contact, ["status"])
    if answer[0] == "ok":
        queues = ask(*contact, ["queues", "list", {}])
        if queues[0] != "ok":
            return queues
        answer[1]["queues"] = queues[1]
    return answer
