"""The style sheet and scripts, which are named by their content, so that browsers keep them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from warren.admin.ui.drawing import HERE

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFiles:
    """All of them.

    Attributes:
        version: Another one whenever one of them is.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, bytes]] = {}
        digest = blake2b(digest_size=8)
        for file in sorted((HERE / "static").iterdir()):
            if file.suffix in TYPES:
                content = file.read_bytes()
                digest.update(content)
                self._files[file.name] = (TYPES[file.suffix], content)
        self.version = digest.hexdigest()

    def find(self, name: str) -> tuple[str, bytes] | None:
        """The type and the content of one; None if there is none of that name."""
        return self._files.get(name)
