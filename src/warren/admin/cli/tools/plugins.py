"""`rabbitmq-plugins`: which of RabbitMQ's plugins are built in.

Nothing but the event exchange can be switched on or off: `enable` of what is there changes nothing,
so that scripts pass, and `enable` of what is not says so. Which plugins were asked for is kept in a
file of the data of the node, as by the tool of RabbitMQ, since other tools compare with that.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any, Final

from warren.admin.cli.tools.command import (
    MONITORING,
    PLUGIN_MANAGEMENT,
    PLUGINS,
    TRUTH,
    UNAVAILABLE,
    USAGE,
    Failure,
    Output,
    ToolAnswer,
    ToolCommand,
    Words,
    WrongWords,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.compatible import RABBITMQ_VERSION
from warren.admin.service.rows import Status
from warren.config.identity import read_identity
from warren.errors import BrokerError
from warren.queue_types import STREAM

FILE: Final = "enabled_plugins"
NAME: Final = re.compile(r"\w+")
BUILT_IN: Final = (
    "rabbitmq_auth_mechanism_ssl",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
)
"""Plugins of RabbitMQ whose features every node has."""
BY_LISTENER: Final = {
    "rabbitmq_management": "http",
    "rabbitmq_management_agent": "http",
    "rabbitmq_web_dispatch": "http",
    "rabbitmq_prometheus": "http/prometheus",
    "rabbitmq_mqtt": "mqtt",
    "rabbitmq_stomp": "stomp",
    "rabbitmq_stream": STREAM.name,
    "rabbitmq_web_mqtt": "http/web-mqtt",
    "rabbitmq_web_stomp": "http/web-stomp",
}
"""Those that a node has if it listens for a protocol."""
EVENTS: Final = "rabbitmq_event_exchange"
"""Enabled and disabled for the whole cluster: the event exchange is there or not."""
OTHERS: Final = (
    "rabbitmq_amqp1_0",
    "rabbitmq_auth_backend_cache",
    "rabbitmq_auth_backend_http",
    "rabbitmq_auth_backend_ldap",
    "rabbitmq_auth_backend_oauth2",
    "rabbitmq_event_exchange",
    "rabbitmq_federation",
    "rabbitmq_federation_management",
    "rabbitmq_jms_topic_exchange",
    "rabbitmq_sharding",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
    "rabbitmq_stream_management",
    "rabbitmq_top",
    "rabbitmq_tracing",
    "rabbitmq_trust_store",
)
"""Those whose features this version does not have, or has elsewhere."""


def built_in(session: ToolSession) -> list[str]:
    """The plugins whose features the node has, by name."""
    status = session.ask("status", {}, Status)
    protocols = {listener.protocol for listener in status.addresses}
    found = [name for name, protocol in BY_LISTENER.items() if protocol in protocols]
    if session.ask("event_exchange", {}, bool):
        found.append(EVENTS)
    return sorted([*BUILT_IN, *found])


def _file(session: ToolSession) -> Path | None:
    """Where it is kept what was asked for; None where the node's data is not on this machine."""
    folder = session.ask("status", {}, Status).data_dir
    try:
        identity = read_identity(folder)
    except BrokerError:
        return None
    return Path(folder, FILE) if identity is not None and identity.name == session.node else None


def explicit(session: ToolSession, here: list[str]) -> list[str]:
    """Those of the plugins that are here which were asked for, and not only there."""
    asked = ["rabbitmq_management"]
    path = _file(session)
    if path is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            asked = NAME.findall(path.read_text(encoding="ascii"))
    return [name for name in here if name in asked or name == EVENTS]


def _keep(session: ToolSession, names: list[str]) -> None:
    """Remember which were asked for; who may not write there has them enabled all the same."""
    path = _file(session)
    if path is not None:
        with contextlib.suppress(OSError):
            path.write_text(f"[{','.join(sorted(names))}].\n", encoding="ascii")


def _list(session: ToolSession, words: Words) -> Output:
    pattern = words.arguments[0] if words.arguments else ".*"
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise Failure(USAGE, f"'{pattern}' is no regular expression: {error}") from None
    here = built_in(session)
    asked = explicit(session, here)
    if words.options.get("enabled"):
        shown = asked
    elif words.options.get("implicitly_enabled"):
        shown = here
    else:
        shown = [*here, *BY_LISTENER, *OTHERS]
    names = [name for name in sorted(set(shown)) if wanted.search(name)]
    if words.options.get("minimal"):
        return ToolAnswer("\n".join(names), names)
    width = max((len(name) for name in names), default=0)
    lines = [
        " Configured: E = explicitly enabled; e = implicitly enabled",
        f" | Status: * = running on {session.node}",
        " |/",
    ]
    for name in names:
        mark = "E*" if name in asked else "e*" if name in here else "  "
        lines.append(f"[{mark}] {name.ljust(width)} {RABBITMQ_VERSION}")
    value: dict[str, Any] = {
        "status": "running",
        "format": "normal",
        "plugins": [
            {
                "name": name,
                "enabled": _enabled(name, here, asked),
                "running": name in here,
                "version": RABBITMQ_VERSION,
                "running_version": RABBITMQ_VERSION if name in here else "",
            }
            for name in names
        ],
    }
    return ToolAnswer("\n".join(lines), value)


def _enabled(name: str, here: list[str], asked: list[str]) -> str:
    """How a plugin is enabled, in RabbitMQ's words."""
    if name in asked:
        return "enabled"
    return "implicit" if name in here else "not_enabled"


def _of_listing(session: ToolSession, words: Words) -> str:
    pattern = words.arguments[0] if words.arguments else ".*"
    return f'Listing plugins with pattern "{pattern}" ...'


def _is_enabled(session: ToolSession, words: Words) -> Output:
    here = built_in(session)
    missing = [name for name in words.arguments if name not in here]
    if not missing:
        names = ", ".join(words.arguments)
        what = f"Plugin {names} is" if len(words.arguments) == 1 else f"Plugins {names} are"
        return ToolAnswer(f"{what} enabled on node {session.node}")
    names = ", ".join(missing)
    what = f"Plugin {names} is" if len(missing) == 1 else f"Plugins {names} are"
    known = ", ".join(here)
    raise Failure(
        UNAVAILABLE,
        f"{what} not enabled on node {session.node}. Enabled plugins and dependencies: {known}",
    )


def _of_asking(session: ToolSession, words: Words) -> str:
    names = ", ".join(words.arguments)
    what = "plugin" if len(words.arguments) == 1 else "plugins"
    verb = "is" if len(words.arguments) == 1 else "are"
    return f"Asking node {session.node} if {what} {names} {verb} enabled..."


def _configured(session: ToolSession, here: list[str], done: str = "") -> str:
    lines = ["The following plugins have been configured:", *(f"  {name}" for name in here)]
    lines += [f"Applying plugin configuration to {session.node}..."]
    if done:
        lines += [f"The following plugins have been {done}:", f"  {EVENTS}"]
    else:
        lines += ["Plugin configuration unchanged."]
    return "\n".join(lines)


def _enable(session: ToolSession, words: Words) -> Output:
    here = built_in(session)
    if words.options.get("all"):
        _keep(session, here)
        return ToolAnswer(_configured(session, here))
    missing = [name for name in words.arguments if name not in (*here, EVENTS)]
    if EVENTS in words.arguments and EVENTS not in here and not missing:
        session.ask("set_event_exchange", {"on": True}, None)
        return ToolAnswer(_configured(session, sorted([*here, EVENTS]), "enabled"))
    if missing:
        names = ", ".join(missing)
        raise Failure(UNAVAILABLE, f"{names} is not built into this version of Warren")
    _keep(session, sorted({*explicit(session, here), *words.arguments}))
    return ToolAnswer(_configured(session, here))


def _disable(session: ToolSession, words: Words) -> Output:
    here = built_in(session)
    found = [name for name in words.arguments if name in here and name != EVENTS]
    if EVENTS in words.arguments and EVENTS in here and not found:
        session.ask("set_event_exchange", {"on": False}, None)
        here.remove(EVENTS)
        return ToolAnswer(_configured(session, here, "disabled"))
    if found or words.options.get("all"):
        names = ", ".join(found or here)
        raise Failure(UNAVAILABLE, f"{names} is built in, and cannot be disabled")
    return ToolAnswer(_configured(session, here))


def _check(words: Words) -> None:
    if not words.arguments and not words.options.get("all"):
        raise WrongWords("Error (argument validation): not enough arguments.")


def _says(what: str) -> Any:
    def banner(session: ToolSession, words: Words) -> str:
        if words.options.get("all"):
            return f"{what} ALL plugins on node {session.node}"
        return "\n".join([f"{what} plugins on node {session.node}:", *words.arguments])

    return banner


def _directories(session: ToolSession, words: Words) -> Output:
    return ToolAnswer("All plugins are built in; no file is read for them.")


CHANGING: Final = {"offline": TRUTH, "online": TRUTH, "all": TRUTH}

add(
    ToolCommand(
        "list",
        (PLUGINS,),
        "[--minimal] [--verbose] [--enabled] [--implicitly-enabled] [<pattern>]",
        PLUGIN_MANAGEMENT,
        "Lists RabbitMQ's plugins, and which of them are built in",
        _list,
        0,
        1,
        {"minimal": TRUTH, "verbose": TRUTH, "enabled": TRUTH, "implicitly_enabled": TRUTH},
        _of_listing,
        aliases={"m": "minimal", "v": "verbose", "E": "enabled", "e": "implicitly_enabled"},
    ),
    ToolCommand(
        "is_enabled",
        (PLUGINS,),
        "<plugin1> [ <plugin2>] [--offline] [--online]",
        MONITORING,
        "Sees whether plugins are built in",
        _is_enabled,
        1,
        -1,
        CHANGING,
        _of_asking,
    ),
    ToolCommand(
        "enable",
        (PLUGINS,),
        "<plugin1> [ <plugin2>] | --all [--offline] [--online]",
        PLUGIN_MANAGEMENT,
        "Sees that plugins are built in: they are enabled then",
        _enable,
        0,
        -1,
        CHANGING,
        _says("Enabling"),
        _check,
    ),
    ToolCommand(
        "disable",
        (PLUGINS,),
        "<plugin1> [ <plugin2>] | --all [--offline] [--online]",
        PLUGIN_MANAGEMENT,
        "Changes nothing: what is built in cannot be disabled",
        _disable,
        0,
        -1,
        CHANGING,
        _says("Disabling"),
        _check,
    ),
    ToolCommand(
        "set",
        (PLUGINS,),
        "[<plugin1> [ <plugin2>]] [--offline] [--online]",
        PLUGIN_MANAGEMENT,
        "Sees that plugins are built in: they are enabled then",
        _enable,
        0,
        -1,
        CHANGING,
        _says("Enabling"),
    ),
    ToolCommand(
        "directories",
        (PLUGINS,),
        "[--offline] [--online]",
        MONITORING,
        "Shows that no directories have plugins",
        _directories,
        banner=says("Listing plugin directories used by node {node}"),
        switches=CHANGING,
    ),
)
