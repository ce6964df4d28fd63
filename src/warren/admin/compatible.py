"""What clients and scripts look at before they go on: which RabbitMQ this broker is like."""

from __future__ import annotations

import platform
from typing import Final

RABBITMQ_VERSION: Final = "4.3.6"
"""The release whose API and tools these are like; others choose paths and fields by it."""
PRODUCT: Final = "Warren"
RUNTIME: Final = f"{platform.python_implementation()} {platform.python_version()}"
"""What runs the broker, for clients that ask for the version of Erlang."""
