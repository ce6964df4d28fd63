"""Which leaders to move so that every node leads about as many quorum queues (REB-01).

Source: REB-01; `rabbit_amqqueue:rebalance` of RabbitMQ 4.3: no node keeps more than its
share, rounded up, as long as another member of one of its queues has less to lead.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class Led:
    """A queue and who leads it.

    Attributes:
        group_id: The queue's.
        leader: The node that leads it.
        candidates: Nodes that run and could lead it, the leader's included.
    """

    def __init__(self, group_id: i64, leader: str, candidates: list[str]) -> None:
        self.group_id: i64 = group_id
        self.leader: str = leader
        self.candidates: list[str] = candidates


def moves(queues: list[Led], running: list[str]) -> list[tuple[int, str]]:
    """Groups whose leaders are to move, and where to, in the order in which to do it.

    Args:
        queues: All that may be moved, each with a leader that runs.
        running: The nodes that are up.
    """
    led: dict[str, list[Led]] = {node: [] for node in running}
    for queue in queues:
        led[queue.leader].append(queue)
    share = -(-len(queues) // len(running))
    moved: dict[int, str] = {}
    chosen, target = _next_move(led, share, moved)
    while chosen is not None:
        led[chosen.leader].remove(chosen)
        led[target].append(chosen)
        moved[int(chosen.group_id)] = target
        chosen, target = _next_move(led, share, moved)
    return list(moved.items())


def _next_move(
    led: dict[str, list[Led]], share: int, moved: dict[int, str]
) -> tuple[Led | None, str]:
    """A queue to move, and where to. None moves twice, and none to where as much is led."""
    for node in sorted(led, key=lambda name: -len(led[name])):
        if len(led[node]) <= share:
            break
        for queue in led[node]:
            others = [name for name in queue.candidates if name != node]
            if others and int(queue.group_id) not in moved:
                target = min(others, key=lambda name: len(led[name]))
                if len(led[target]) < len(led[node]):
                    return queue, target
    return None, ""
