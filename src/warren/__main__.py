"""The command `warren`: as `python -m warren`, and as the script of that name."""

from __future__ import annotations

import os
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


def rabbitmq_server() -> int:
    """The script `rabbitmq-server`; returns the exit status."""
    from warren.admin.cli.tools.server import server_words

    return main(server_words(os.environ, sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
