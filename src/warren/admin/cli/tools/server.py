"""`rabbitmq-server`: runs a broker as its environment says, in the foreground.

RabbitMQ's variables are heeded as far as Warren has what they say; its own options may follow, and
win.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

OPTIONS: Final = {
    "RABBITMQ_NODENAME": "--node-name",
    "RABBITMQ_NODE_PORT": "--port",
    "RABBITMQ_NODE_IP_ADDRESS": "--bind",
    "RABBITMQ_DIST_PORT": "--cluster-port",
    "WARREN_DATA_DIR": "--data-dir",
}
"""What each variable of the environment is as an option of `warren server`."""
CONFIG_VARIABLES: Final = ("WARREN_CONFIG", "RABBITMQ_CONFIG_FILE")
CONFIG_SUFFIX: Final = ".conf"


def server_words(environment: Mapping[str, str], given: Sequence[str]) -> list[str]:
    """The words of `warren` that a `rabbitmq-server` amounts to.

    Args:
        given: Options of `warren server`, which win over the environment.
    """
    words: list[str] = []
    for variable, option in OPTIONS.items():
        if environment.get(variable):
            words += [option, environment[variable]]
    for variable in CONFIG_VARIABLES:
        path = environment.get(variable, "")
        if path and not os.path.exists(path) and os.path.exists(path + CONFIG_SUFFIX):
            # RabbitMQ lets it be left out.
            path += CONFIG_SUFFIX
        if path and os.path.exists(path):
            words += ["--config", path]
            break
    return ["server", *words, *given]
