"""`rabbitmq-server`: runs a broker as its environment says, in the foreground.

RabbitMQ's variables are heeded as far as Warren has what they say; its own options may follow, and
win.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Final

from warren.config.values import LOG_LEVELS, parse_node_name

OPTIONS: Final = {
    "RABBITMQ_NODENAME": "--node-name",
    "RABBITMQ_NODE_PORT": "--port",
    "RABBITMQ_NODE_IP_ADDRESS": "--bind",
    "RABBITMQ_DIST_PORT": "--cluster-port",
}
"""What each variable of the environment is as an option of `warren server`."""
SETTINGS: Final = {
    "RABBITMQ_DEFAULT_USER": "default_user",
    "RABBITMQ_DEFAULT_PASS": "default_pass",
    "RABBITMQ_DEFAULT_VHOST": "default_vhost",
}
"""What each is as a key of the configuration file."""
DATA_VARIABLES: Final = ("RABBITMQ_DATA_DIR", "RABBITMQ_MNESIA_DIR")
BASE_VARIABLE: Final = "RABBITMQ_MNESIA_BASE"
OWN_FOLDER: Final = "warren"
"""Warren's place in folders that are RabbitMQ's, so that neither meets what the other wrote."""
LOG_VARIABLE: Final = "RABBITMQ_LOG"
CONFIG_VARIABLES: Final = (
    (("WARREN_CONFIG", "RABBITMQ_CONFIG_FILE"), ".conf"),
    (("RABBITMQ_CONFIG_FILES",), ""),
    (("RABBITMQ_ADVANCED_CONFIG_FILE",), ".config"),
)
"""Variables that name files, of which the first that is set counts, and what may be left out."""


def server_words(environment: Mapping[str, str], given: Sequence[str]) -> list[str]:
    """The words of `warren` that a `rabbitmq-server` amounts to.

    Args:
        given: Options of `warren server`, which win over the environment.
    """
    words: list[str] = []
    for variable, option in OPTIONS.items():
        if environment.get(variable):
            words += [option, environment[variable]]
    words += _data_dir(environment)
    for variables, suffix in CONFIG_VARIABLES:
        for variable in variables:
            path = environment.get(variable, "")
            if path and not os.path.exists(path) and os.path.exists(path + suffix):
                # RabbitMQ lets it be left out.
                path += suffix
            found = [path] if os.path.exists(path) else sorted(glob.glob(path))
            if path and found:
                for name in found:
                    words += ["--config", name]
                break
    for variable, key in SETTINGS.items():
        if environment.get(variable):
            # As it is, and in no list of processes.
            words += ["--set", f"{key} = $({variable})"]
    level = environment.get(LOG_VARIABLE, "")
    if level in LOG_LEVELS:
        words += ["--log-level", level]
    return ["server", *words, *given]


def _data_dir(environment: Mapping[str, str]) -> list[str]:
    """Where the node keeps its data, if the environment says so."""
    if environment.get("WARREN_DATA_DIR"):
        return ["--data-dir", environment["WARREN_DATA_DIR"]]
    for variable in DATA_VARIABLES:
        if environment.get(variable):
            return ["--data-dir", os.path.join(environment[variable], OWN_FOLDER)]
    base = environment.get(BASE_VARIABLE)
    if base:
        name = parse_node_name(environment.get("RABBITMQ_NODENAME") or "rabbit")
        return ["--data-dir", os.path.join(base, OWN_FOLDER, name)]
    return []
