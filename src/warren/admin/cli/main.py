"""The command `warren`: parses its words, puts the configuration together, runs what they name.

What takes long to import is imported by the command that needs it, so that `--help`, `--version`
and a mistyped option answer at once. `server` loads and parses nothing that other commands are
for: a broker would keep it as long as it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from warren import __version__
from warren.admin.cli.output import while_read
from warren.admin.cli.words import INTERRUPTED, Parser, Shared, checked, examples, wrapped
from warren.config import config
from warren.config.building import build, check_clients, check_cluster, check_web
from warren.config.reading import Entry, Source, parse_lines, read_file
from warren.errors import ConfigError

EXIT_DONE = 0
EXIT_USAGE = 2

EXAMPLES = examples(
    "warren server --data-dir data           # a broker, until Ctrl-C",
    "warren status --data-dir data           # what it is doing",
    "warren declare orders                   # a queue",
    "warren publish orders 'three carrots'   # a message into it",
    "warren get orders                       # and out of it again",
    "warren dev cluster --data-dir cluster   # three nodes to try a cluster with",
    "warren publish --help                   # more of a command",
)

SERVER_EXAMPLES = examples(
    "warren server --data-dir data --port 5672",
    "warren server --config /etc/warren/warren.conf --set log.level=debug",
    "warren server --set default_user=app --set default_pass=secret --data-dir data",
    "warren server --node-name n2@host2 --join host1:25672 --secret-file secret",
)


def _keys() -> str:
    """Every key of the configuration file with its default, for the help text."""
    defaults = config.ServerConfig(node_name="", data_dir="", listeners=())
    lines = ["keys of the configuration file, which --set takes, too:"]
    for key, text in config.PATTERNS:
        lines += [f"  {key}", wrapped(text, "      ")]
    for setting in config.SETTINGS:
        default = str(getattr(defaults, setting.field)).removesuffix(".0")
        default = {"True": "true", "False": "false", "0": ""}.get(default, default)
        known = f" (default: {default})" if default else ""
        lines += [f"  {setting.key}", wrapped(f"{setting.help}{known}", "      ")]
    return "\n".join(lines)


SERVER = "server"

Run = Callable[[argparse.Namespace], int]
"""Runs a command; returns the exit status."""


def parser(serves: bool = False) -> Parser:
    """The parser of all words, or of those of `server` alone."""
    command = Parser(
        prog="warren",
        description="A message broker that speaks RabbitMQ's protocols.",
        epilog=EXAMPLES,
    )
    command.add_argument("--version", action="version", version=f"warren {__version__}")
    commands = command.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _server_command(commands)
    if not serves:
        from warren.admin.cli import completion

        _other_commands(commands)
        completion.add_command(commands, command)
    return command


def _other_commands(commands: Any) -> None:
    """All but `server`; each sets `run`."""
    from warren.admin.cli import (
        access,
        archive,
        client,
        cluster,
        dev,
        feed,
        groups,
        inspect,
        migrate,
        pipeline,
        policies,
        queues,
        status,
    )

    _asking(
        commands,
        status.run,
        "status",
        "show what a running node is doing",
        status.EXAMPLES,
        lambda _: [],
    )
    _asking(
        commands,
        queues.run,
        "queues",
        "list queues, or move members and leaders of quorum queues",
        queues.EXAMPLES,
        queues.add_actions,
    )
    _asking(
        commands,
        cluster.run,
        "cluster",
        "show the cluster, or change it",
        cluster.EXAMPLES,
        cluster.add_actions,
    )
    _asking(
        commands,
        policies.run,
        "policies",
        "show settings of queues by their names, or change them",
        policies.EXAMPLES,
        policies.add_actions,
    )
    _asking(
        commands,
        feed.run,
        "feed",
        "show events feeds, which tell what becomes of messages, or turn them on and off",
        feed.EXAMPLES,
        feed.add_actions,
    )
    for name, text, ending, add_actions in (
        ("users", "users", access.USER_EXAMPLES, access.add_user_actions),
        ("vhosts", "vhosts", access.VHOST_EXAMPLES, access.add_vhost_actions),
        (
            "permissions",
            "what users may do in vhosts",
            access.PERMISSION_EXAMPLES,
            access.add_permission_actions,
        ),
        (
            "limits",
            "how much users and vhosts may have",
            access.LIMIT_EXAMPLES,
            access.add_limit_actions,
        ),
    ):
        _asking(commands, access.run, name, f"show {text}, or change that", ending, add_actions)
    client.add_commands(commands)
    migrate.add_command(commands)
    archive.add_command(commands)
    groups.add_command(commands)
    inspect.add_command(commands)
    pipeline.add_command(commands)
    dev.add_command(commands)


def _server_command(commands: Any) -> None:
    server = commands.add_parser(
        SERVER,
        help="run a broker in the foreground",
        description="Run a broker in the foreground until SIGTERM or SIGINT.",
        epilog=f"{SERVER_EXAMPLES}\n\n{_keys()}",
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
        type=checked(config.parse_node_name),
        help=f"the node's name (default: {config.default_node_name()})",
    )
    server.add_argument(
        "--port",
        type=checked(config.parse_port),
        help="port for AMQP 0-9-1, instead of those in the configuration "
        f"(default: {config.PORT_DEFAULT})",
    )
    server.add_argument(
        "--bind",
        metavar="ADDRESS",
        help="address to listen on, instead of those in the configuration (default: every "
        "interface; user guest connects from this machine only, see loopback_users)",
    )
    server.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="configuration file in the format of rabbitmq.conf, a folder of *.conf files, or an "
        "advanced.config; may be given more than once, and the options given here win",
    )
    server.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a key of the configuration file; may be given more than once",
    )
    server.add_argument(
        "--log-level",
        choices=config.LOG_LEVELS,
        metavar="LEVEL",
        help=f"{', '.join(config.LOG_LEVELS)} (default: info)",
    )
    server.add_argument(
        "--join",
        metavar="HOST:PORT",
        type=checked(config.parse_contact),
        action="append",
        default=[],
        help="cluster listener of a node whose cluster an empty data directory joins; may be given "
        "more than once",
    )
    server.add_argument(
        "--cluster-port",
        metavar="PORT",
        type=checked(config.parse_port),
        help=f"port for other nodes (default: {config.CLUSTER_PORT_DEFAULT})",
    )
    server.add_argument(
        "--cluster-host",
        metavar="HOST",
        type=checked(config.parse_host),
        help="where other nodes reach this one (default: --bind, or the host in the node's name)",
    )
    server.add_argument(
        "--management-port",
        metavar="PORT",
        type=checked(config.parse_management_port),
        help=f"port of the HTTP API, or none (default: {config.MANAGEMENT_PORT_DEFAULT}, if free)",
    )
    server.add_argument("--secret-file", metavar="FILE", help=SECRET_HELP)
    server.add_argument(
        "--salvage",
        action="store_true",
        help="go on with what is whole of a damaged log, where no other node has more",
    )
    server.add_argument(
        "--check",
        action="store_true",
        help="start nothing: say all that is wrong with the configuration, and which keys of it "
        "set nothing (exit status 0 if a node starts with it, else 2)",
    )
    server.add_argument("--version", action="version", version=f"warren {__version__}")


SECRET_HELP = (
    "file with the cluster's secret (default: cluster.secret, WARREN_CLUSTER_SECRET, or the file "
    "'secret' in the data directory)"
)


def _asking(
    commands: Any,
    run: Run,
    name: str,
    text: str,
    ending: str,
    add_actions: Callable[[Parser], list[Parser]],
) -> None:
    """A command that asks a running node; its options may stand before and after the action."""
    command: Parser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}. The node that is asked is the one of "
        "--data-dir, or the one that --contact names.",
        epilog=ending,
    )
    command.set_defaults(run=run)
    shared = Shared()
    shared.add("--data-dir", metavar="DIR", help="the data directory of a node on this machine")
    shared.add(
        "--node-name",
        metavar="NAME@HOST",
        type=checked(config.parse_node_name),
        help="a node on this machine, for its default data directory",
    )
    shared.add(
        "--contact",
        metavar="HOST:PORT",
        type=checked(config.parse_contact),
        help="the cluster listener of a node",
    )
    shared.add("--secret-file", metavar="FILE", help=SECRET_HELP)
    shared.add("--config", metavar="FILE", help="configuration file, for its keys cluster.*")
    shared.add("--json", default=False, action="store_true", help="answer in JSON, for programs")
    shared.give(command, inner=False)
    for action in add_actions(command):
        shared.give(action, inner=True)


def server_config(words: argparse.Namespace) -> config.ServerConfig:
    """The configuration that a parsed command line and the files it names amount to.

    Raises:
        ConfigError: A file or a value is not understood, of each a line.
    """
    wrong: list[str] = []
    built = put_together(words, wrong)
    if wrong:
        raise ConfigError("\n".join(wrong))
    check_cluster(built)
    check_clients(built)
    check_web(built)
    return built


def put_together(words: argparse.Namespace, wrong: list[str]) -> config.ServerConfig:
    """The configuration as far as it is understood.

    Args:
        wrong: Takes what is not.
    """
    entries: list[Entry] = []
    for path in words.config:
        try:
            entries += read_file(path)
        except ConfigError as error:
            wrong.append(str(error))
    secret = os.environ.get(config.SECRET_VARIABLE)
    if secret:
        source = Source(config.SECRET_VARIABLE)
        entries.insert(0, Entry("cluster.secret", secret, source, literal=True))
    for text in words.set:
        try:
            found = parse_lines(text, "--set")
        except ConfigError as error:
            wrong.append(str(error))
            continue
        entries += [entry._replace(source=Source("--set")) for entry in found]
    if words.log_level:
        entries.append(Entry("log.level", words.log_level, Source("--log-level")))
    return build(
        entries,
        node_name=words.node_name,
        data_dir=words.data_dir,
        bind=words.bind,
        port=words.port,
        cluster_host=words.cluster_host,
        cluster_port=words.cluster_port,
        management_port=words.management_port,
        join=words.join,
        secret_file=words.secret_file,
        salvage=words.salvage,
        errors=wrong,
    )


def check(words: argparse.Namespace) -> int:
    """Say all that is wrong with a configuration, and what of it is not honoured.

    Returns:
        The exit status: 0 where a node starts with it, else 2.
    """
    from warren.admin.cli.checking import wrong_with

    wrong: list[str] = []
    built = put_together(words, wrong)
    wrong += wrong_with(built)
    for text in wrong:
        complain(text)
    for text in built.warnings:
        print(text)
    said = f"{len(built.warnings)} of its keys set nothing" if built.warnings else "nothing to say"
    print(f"the configuration is {'wrong' if wrong else f'right; {said}'}")
    return EXIT_USAGE if wrong else 0


def complain(text: str) -> None:
    """Print what is wrong, each line by itself."""
    for line in text.split("\n"):
        print(f"warren: {line}", file=sys.stderr)


Serve = Callable[[config.ServerConfig], int]
"""Runs a broker until it is told to stop; returns the exit status."""


def main(serve: Serve, arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 done, 1 failed, 2 wrong words or settings, 130
    ended by Ctrl-C.

    Args:
        serve: Runs a broker.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    parsed = partial(parser(serves=given[:1] == [SERVER]).parse_args, given)
    words = while_read(parsed, None)
    if words is None:
        return EXIT_DONE
    if words.command != SERVER:
        run: Run = words.run
        try:
            return while_read(partial(run, words), EXIT_DONE)
        except KeyboardInterrupt:
            print("warren: ended", file=sys.stderr)
            return INTERRUPTED
    if words.check:
        return while_read(partial(check, words), EXIT_DONE)
    try:
        settings = server_config(words)
    except ConfigError as error:
        complain(str(error))
        return EXIT_USAGE
    return serve(settings)
