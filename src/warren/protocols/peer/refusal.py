"""Why a link between two nodes does not come about or ends: codes on the wire, texts for logs.

Only codes travel. Each node writes its own text for them, so that a stranger cannot put words into
a log.
"""

from __future__ import annotations

from typing import Final, final

GARBAGE: Final = 1
MALFORMED: Final = 2
VERSION: Final = 3
SECRET: Final = 4
CLUSTER: Final = 5
OWN_NAME: Final = 6
NOT_DIALLED: Final = 7
COPIED: Final = 8
CERTIFICATE: Final = 9
TIMEOUT: Final = 10
UNEXPECTED: Final = 11
TOO_LARGE: Final = 12
EMPTY: Final = 13
NAME_TAKEN: Final = 15
RENAMED: Final = 16
DAMAGED: Final = 17
OUTDATED: Final = 18
OLDER: Final = 19
FORGOTTEN: Final = 20
BEHIND: Final = 21

TEXTS: Final[dict[int, str]] = {
    GARBAGE: "what came from there is not the protocol of Warren's nodes; check host and port",
    MALFORMED: "the handshake is malformed",
    VERSION: "the nodes speak different versions of the peer protocol; upgrade the older one",
    SECRET: "the other node's secret differs; give both the same cluster secret",
    CLUSTER: "the other node belongs to another cluster; reset the one that is to join anew",
    OWN_NAME: "both ends have the same node name; give each node a name and an address of its own",
    NOT_DIALLED: "another node answers there than the one dialled; check the nodes' addresses",
    COPIED: "both nodes have the same identity; a data directory must not be copied to another one",
    CERTIFICATE: "a certificate does not hold its node's name; issue one that does",
    TIMEOUT: "the handshake took too long",
    UNEXPECTED: "something came that has no place on this link",
    TOO_LARGE: "a message is larger than the receiving node takes; set the same limit on both",
    EMPTY: "an empty message came",
    NAME_TAKEN: "the cluster has a node of this name with another data directory: forget that one "
    "first, or give the new one another name",
    DAMAGED: "a message is damaged or cannot be meant; if that happens again, look at the network "
    "and at the memory of both machines",
    OUTDATED: "the node's data directory is an older copy, or a part of it is missing: the node "
    "begins anew with what the others have",
    OLDER: "the node's data directory is an older copy, or a part of it is missing: it begins "
    "anew once the others are a majority without it",
    FORGOTTEN: "the cluster, of which a majority runs, does not have the node any more: it was "
    "forgotten, and joins anew with an empty data directory only",
    BEHIND: "the cluster has moved on to a version that the node's release does not know: start a "
    "newer release there",
    RENAMED: "the node's data directory belongs to a node of another name; a node cannot change it",
}


@final
class LinkRefusal:
    """One end of a link refused it.

    Attributes:
        code: One of the constants above; another one may come from a newer node.
        theirs: Whether the other end refused; else this one.
    """

    def __init__(self, code: int, theirs: bool, detail: str = "") -> None:
        self.code: int = code
        self.theirs: bool = theirs
        self._detail: str = detail

    @property
    def text(self) -> str:
        """The reason, for a log line of this node."""
        text = TEXTS.get(self.code, f"code {self.code} of a newer version")
        if self._detail:
            text += f" ({self._detail})"
        if self.theirs:
            text += " (refused by the other node)"
        return text
