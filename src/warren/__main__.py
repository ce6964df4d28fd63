"""`python -m warren` is the command `warren`."""

from __future__ import annotations

import sys

from warren.server.cli import main

if __name__ == "__main__":
    sys.exit(main())
