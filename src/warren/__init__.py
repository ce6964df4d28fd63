"""Warren: a message broker that speaks RabbitMQ's protocols and obeys its rules.

The inner packages are compiled where the package was built with a C compiler. `WARREN_PURE=1` in
the environment runs the Python source that lies beside the compiled modules instead.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__version__ = "0.2.0.dev0"


class _SourceFinder:
    """Finds the modules of this package by their source only, never by an extension module."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module below `warren`, None for any other name."""
        if not name.startswith(__name__ + "."):
            return None
        for folder in path or ():
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)
            if spec is not None:
                return spec
        return None


PURE = os.environ.get("WARREN_PURE", "") not in ("", "0")
"""Whether the environment asks for the source although compiled modules may exist."""

COMPILED = not PURE and any(
    os.path.exists(os.path.join(folder, "errors" + suffix))
    for folder in __path__
    for suffix in EXTENSION_SUFFIXES
)
"""Whether the inner packages run compiled."""

if PURE:
    sys.meta_path.insert(0, _SourceFinder)
