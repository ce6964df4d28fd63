"""A network of its own for the nodes of a cluster: one namespace each, and a bridge between them.

The process that makes a `Net` has to be alone in a network namespace, with the right to change it:
`ENTER` is how to start it. The bridge is in that namespace, so its clients reach every node.

A cut is an entry in the sender's table of neighbours that names a machine that does not exist:
frames leave and arrive nowhere, as with a dead cable, one way only and without an error.
"""

from __future__ import annotations

import os
import subprocess

ENTER = (
    ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
)
PREFIX = "10.77.0."
OWN_PLACE = 254
NOBODY = "02:77:ff:ff:ff:ff"


class Net:
    """The network. Nodes have places from 1 on."""

    def __init__(self) -> None:
        self._holders: dict[int, subprocess.Popen[bytes]] = {}
        self._cut: set[tuple[int, int]] = set()
        ip("link set lo up")
        ip("link add name bridge0 type bridge forward_delay 0")
        ip(f"link set bridge0 address {mac(OWN_PLACE)}")
        ip(f"addr add {address(OWN_PLACE)}/24 dev bridge0")
        ip("link set bridge0 up")

    def add(self, place: int) -> None:
        """Lay a cable to a new namespace."""
        # Whoever holds it says when it is there.
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo; read _"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        self._holders[place] = holder
        ip(f"link add name cable{place} type veth peer name end{place}")
        ip(f"link set end{place} netns {holder.pid}")
        ip(f"link set cable{place} master bridge0 up")
        inside = self.inside(place)
        ip("link set lo up", inside)
        ip(f"link set end{place} address {mac(place)}", inside)
        ip(f"addr add {address(place)}/24 dev end{place}", inside)
        ip(f"link set end{place} up", inside)

    def inside(self, place: int) -> list[str]:
        """The words before a command that make it run there."""
        return ["nsenter", f"--net=/proc/{self._holders[place].pid}/ns/net"]

    def cut(self, sender: int, receiver: int) -> None:
        """Lose what one node sends another."""
        self._cut.add((sender, receiver))
        self._neighbour(sender, receiver, NOBODY)

    def heal(self) -> None:
        """Lose nothing any more."""
        for sender, receiver in self._cut:
            self._neighbour(sender, receiver, mac(receiver))
        self._cut.clear()

    def close(self) -> None:
        """Let the namespaces go."""
        for holder in self._holders.values():
            holder.kill()
            holder.wait()

    def _neighbour(self, sender: int, receiver: int, where: str) -> None:
        entry = f"{address(receiver)} lladdr {where} dev end{sender} nud permanent"
        ip(f"neigh replace {entry}", self.inside(sender))


def address(place: int) -> str:
    """Where a node is reached."""
    return f"{PREFIX}{place}"


def mac(place: int) -> str:
    """A node's address on the bridge."""
    return f"02:77:00:00:00:{place:02x}"


def ip(words: str, inside: list[str] | None = None) -> None:
    """Run `ip`.

    Raises:
        RuntimeError: It failed.
    """
    done = subprocess.run([*(inside or []), "ip", *words.split()], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {words}: {done.stderr.strip()}")
