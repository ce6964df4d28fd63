"""The command `warren`: as `python -m warren`, and as the script of that name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from warren.admin.cli.main import main as command
from warren.config.config import ServerConfig


def serve(config: ServerConfig) -> int:
    """Run a broker, which is loaded only now; returns the exit status."""
    from warren.server.main import run

    return run(config)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 done, 1 failed, 2 wrong words or settings."""
    return command(serve, arguments)


if __name__ == "__main__":
    sys.exit(main())
