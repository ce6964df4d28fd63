"""The command `warren`: parses its words, puts the configuration together, runs the broker.

What takes long to import is imported by the command that needs it, so that `--help`, `--version`
and a mistyped option answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from warren import __version__
from warren.errors import ConfigError
from warren.server import config

EXIT_USAGE = 2


def _checked(parse: Callable[[str], config.Value]) -> Callable[[str], config.Value]:
    """A parser of the configuration, with its refusals in argparse's form."""

    def convert(text: str) -> config.Value:
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
        lines.append(f"  {key:<36}{text}")
    for setting in config.SETTINGS:
        default = getattr(defaults, setting.field)
        lines.append(f"  {setting.key:<36}{setting.help} (default {default})")
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
    server.add_argument("--version", action="version", version=f"warren {__version__}")
    return command


def server_config(words: argparse.Namespace) -> config.ServerConfig:
    """The configuration that a parsed command line and the file it names amount to.

    Raises:
        ConfigError: The file or a value is not understood.
    """
    entries = config.read_file(words.config) if words.config else []
    for text in words.set:
        entries += [
            entry._replace(source=config.Source("--set"))
            for entry in config.parse_lines(text, "--set")
        ]
    if words.log_level:
        entries.append(config.Entry("log.level", words.log_level, config.Source("--log-level")))
    return config.build(
        entries,
        node_name=words.node_name,
        data_dir=words.data_dir,
        bind=words.bind,
        port=words.port,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 done, 1 failed, 2 wrong words or settings."""
    words = parser().parse_args(arguments)
    try:
        settings = server_config(words)
    except ConfigError as error:
        print(f"warren: {error}", file=sys.stderr)
        return EXIT_USAGE
    from warren.server.main import run

    return run(settings)
