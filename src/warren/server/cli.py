"""The command `warren`: parses its words, puts the configuration together, runs the broker.

What takes long to import is imported by the command that needs it, so that `--help`, `--version`
and a mistyped option answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from warren import __version__
from warren.errors import ConfigError
from warren.server import config, policies_command, queues_command

EXIT_USAGE = 2


def _checked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of the configuration, with its refusals in argparse's form."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: allowed is {error}") from None

    return convert


def _keys() -> str:
    """Every key of the configuration file with its default, for the help text."""
    defaults = config.ServerConfig(node_name="", data_dir="", listeners=())
    lines = ["keys of the configuration file:"]
    for key, text in config.PATTERNS:
        lines.append(f"  {key:<35} {text}")
    for setting in config.SETTINGS:
        default = getattr(defaults, setting.field)
        lines.append(f"  {setting.key:<35} {setting.help} (default {default})")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="warren", description="A message broker that speaks RabbitMQ's protocols."
    )
    command.add_argument("--version", action="version", version=f"warren {__version__}")
    commands = command.add_subparsers(dest="command", required=True, metavar="COMMAND")
    server = commands.add_parser(
        "server",
        help="run a broker in the foreground",
        description="Run a broker in the foreground until SIGTERM or SIGINT.",
        epilog=_keys(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    server.add_argument(
        "--data-dir",
        metavar="DIR",
        help="directory for everything the node keeps; made where it is missing "
        "(default: ~/.local/share/warren/NODE)",
    )
    server.add_argument(
        "--node-name",
        metavar="NAME@HOST",
        type=_checked(config.parse_node_name),
        help=f"the node's name (default: {config.default_node_name()})",
    )
    server.add_argument(
        "--port",
        type=_checked(config.parse_port),
        help=f"port for AMQP 0-9-1 (default: {config.PORT_DEFAULT})",
    )
    server.add_argument(
        "--bind",
        metavar="ADDRESS",
        help="address to listen on (default: every interface; user guest connects from this "
        "machine only)",
    )
    server.add_argument(
        "--config",
        metavar="FILE",
        help="configuration file in the format of rabbitmq.conf; the options given here win",
    )
    server.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a key of the configuration file; may be given more than once",
    )
    server.add_argument("--log-level", choices=config.LOG_LEVELS, help="(default: info)")
    server.add_argument(
        "--join",
        metavar="HOST:PORT",
        type=_checked(config.parse_contact),
        action="append",
        default=[],
        help="cluster listener of a node whose cluster an empty data directory joins; may be given "
        "more than once",
    )
    server.add_argument(
        "--cluster-port",
        type=_checked(config.parse_port),
        help=f"port for other nodes (default: {config.CLUSTER_PORT_DEFAULT})",
    )
    server.add_argument(
        "--cluster-host",
        metavar="HOST",
        type=_checked(config.parse_host),
        help="where other nodes reach this one (default: --bind, or the host in the node's name)",
    )
    _secret_option(server)
    server.add_argument("--version", action="version", version=f"warren {__version__}")
    _cluster_commands(commands)
    queues_command.add_actions(
        _asking(commands, "queues", "about members and leaders of quorum queues, or move them"),
        _checked,
    )
    policies_command.add_actions(
        _asking(commands, "policies", "about settings of queues by their names, or change them")
    )
    return command


def _secret_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--secret-file",
        metavar="FILE",
        help="file with the cluster's secret (default: cluster.secret, WARREN_CLUSTER_SECRET, or "
        "the file 'secret' in the data directory)",
    )


def _asking(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """A command that asks a running node."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=f"ask a running node {text}",
        description=f"Ask a running node {text}. The node is the one of --data-dir, or the one "
        "that --contact names.",
    )
    command.add_argument("--data-dir", metavar="DIR", help="the data directory of a node here")
    command.add_argument(
        "--node-name",
        metavar="NAME@HOST",
        type=_checked(config.parse_node_name),
        help="a node here, for its default data directory",
    )
    command.add_argument(
        "--contact",
        metavar="HOST:PORT",
        type=_checked(config.parse_contact),
        help="the cluster listener of a node",
    )
    _secret_option(command)
    command.add_argument("--config", metavar="FILE", help="for its keys cluster.*")
    return command


def _cluster_commands(commands: Any) -> None:
    cluster = _asking(commands, "cluster", "about its cluster, or change it")
    actions = cluster.add_subparsers(dest="action", required=True, metavar="ACTION")
    status = actions.add_parser("status", help="nodes, and which of them leads which queue")
    status.add_argument("--json", action="store_true", help="as JSON, for programs")
    forget = actions.add_parser("forget", help="remove a node that will not come back")
    forget.add_argument("name", metavar="NODE", type=_checked(config.parse_node_name))
    leave = actions.add_parser("leave", help="have the asked node leave its cluster and stop")
    for action in (forget, leave):
        action.add_argument(
            "--force",
            action="store_true",
            help="even where quorum queues lose their last voting member or their majority",
        )


def server_config(words: argparse.Namespace) -> config.ServerConfig:
    """The configuration that a parsed command line and the file it names amount to.

    Raises:
        ConfigError: The file or a value is not understood.
    """
    entries = config.read_file(words.config) if words.config else []
    secret = os.environ.get(config.SECRET_VARIABLE)
    if secret:
        source = config.Source(config.SECRET_VARIABLE)
        entries.insert(0, config.Entry("cluster.secret", secret, source))
    for text in words.set:
        entries += [
            entry._replace(source=config.Source("--set"))
            for entry in config.parse_lines(text, "--set")
        ]
    if words.log_level:
        entries.append(config.Entry("log.level", words.log_level, config.Source("--log-level")))
    built = config.build(
        entries,
        node_name=words.node_name,
        data_dir=words.data_dir,
        bind=words.bind,
        port=words.port,
        cluster_host=words.cluster_host,
        cluster_port=words.cluster_port,
        join=words.join,
        secret_file=words.secret_file,
    )
    config.check_cluster(built)
    return built


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 done, 1 failed, 2 wrong words or settings."""
    words = parser().parse_args(arguments)
    if words.command == "cluster":
        from warren.server.cluster_command import run as run_cluster

        return run_cluster(words)
    if words.command == "queues":
        from warren.server.queues_command import run as run_queues

        return run_queues(words)
    if words.command == "policies":
        return policies_command.run(words)
    try:
        settings = server_config(words)
    except ConfigError as error:
        print(f"warren: {error}", file=sys.stderr)
        return EXIT_USAGE
    from warren.server.main import run

    return run(settings)
