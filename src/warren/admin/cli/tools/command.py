"""What a command is, what it gives back, and how it fails; the one table of all commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from warren.admin.cli.tools.session import ToolSession

DONE: Final = 0
USAGE: Final = 64
DATA: Final = 65
NO_USER: Final = 67
UNAVAILABLE: Final = 69
SOFTWARE: Final = 70
TEMPORARY: Final = 75
"""Exit codes, from `sysexits.h` as RabbitMQ uses them."""

CTL: Final = "rabbitmqctl"
QUEUES: Final = "rabbitmq-queues"
DIAGNOSTICS: Final = "rabbitmq-diagnostics"
UPGRADE: Final = "rabbitmq-upgrade"
PLUGINS: Final = "rabbitmq-plugins"
STREAMS: Final = "rabbitmq-streams"

TEXT: Final = "text"
NUMBER: Final = "number"
WHOLE: Final = "whole"
TRUTH: Final = "truth"
"""What the value of an option is: words, any number, a whole number, or that it is given at all."""


class Failure(Exception):
    """The command failed.

    Attributes:
        code: The exit code.
        text: What the operator reads.
        bare: Whether the text stands alone, without the word `Error:` above it.
    """

    def __init__(self, code: int, text: str, bare: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.bare = bare


class WrongWords(Exception):
    """The words are none that the command takes; how it is right is shown behind it.

    Attributes:
        code: The exit code.
        text: What is wrong.
    """

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class NodeDown(Exception):
    """The node cannot be asked; the text says why."""


class Atoms(list[str]):
    """Words that Erlang has as atoms: `[administrator, monitoring]`."""


class AmqpTable(dict[str, Any]):
    """Arguments, whose values have types of AMQP 0-9-1."""


class Terms(dict[str, Any]):
    """A map with texts as keys, as the definition of a policy is."""


class Atom(str):
    """A word that Erlang has as an atom."""


class ToolRows(NamedTuple):
    """A list of things of one kind.

    Attributes:
        columns: The names of what is shown of each.
        rows: The values, in the order of the columns.
        formatter: How they are shown unless the operator says otherwise.
        streamed: Whether nothing at all is shown where there are none.
        headed: Whether tables have a line with the names of the columns.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    formatter: str = "table"
    streamed: bool = False
    headed: bool = True


class ToolAnswer(NamedTuple):
    """What a command found out or did.

    Attributes:
        text: In words; empty for none.
        value: For programs; None for a word that it was done.
        code: The exit code.
        wrong: Whether the words are of an error, and go to the standard error stream.
    """

    text: str = ""
    value: Any = None
    code: int = DONE
    wrong: bool = False


Output = ToolRows | ToolAnswer | None


class Words(NamedTuple):
    """What a command was given.

    Attributes:
        arguments: Words that are no options, behind the command's name.
        options: By name, those that were given.
        given: All words, as they came.
    """

    arguments: list[str]
    options: dict[str, Any]
    given: list[str]

    @property
    def vhost(self) -> str:
        """The vhost that it is about."""
        return str(self.options.get("vhost", "/"))

    def timeout(self, default: float) -> float:
        """Seconds that it may take; 0 and `infinity` are for ever."""
        return float(self.options.get("timeout", default))


class ToolCommand(NamedTuple):
    """One command.

    Attributes:
        name: Its name.
        tools: The tools that have it, of which the first one is shown in its usage.
        usage: What comes behind its name.
        section: Of the list of commands.
        text: What it does, in a sentence.
        run: Does it.
        least, most: How many arguments it takes; -1 for any number.
        switches: Options of its own, with what their values are.
        banner: What is said before it is done; it may be empty.
        check: Looks at the words before anything is done.
        at_once: Whether the banner is said even if the node cannot be reached.
        aliases: Short options of its own, by letter.
    """

    name: str
    tools: tuple[str, ...]
    usage: str
    section: str
    text: str
    run: Callable[[ToolSession, Words], Output]
    least: int = 0
    most: int = 0
    switches: dict[str, str] = {}
    banner: Callable[[ToolSession, Words], str] | None = None
    check: Callable[[Words], None] | None = None
    at_once: bool = False
    aliases: dict[str, str] = {}


COMMANDS: Final[dict[str, ToolCommand]] = {}
"""All commands by name; the modules of the groups fill it as they are imported."""

NODES: Final = "Nodes"
CLUSTER: Final = "Cluster"
REPLICATION: Final = "Replication"
USERS: Final = "Users"
ACCESS: Final = "Access Control"
MONITORING: Final = "Monitoring, observability and health checks"
PARAMETERS: Final = "Parameters"
POLICIES: Final = "Policies"
VHOSTS: Final = "Virtual hosts"
OF_QUEUES: Final = "Queues"
UPGRADES: Final = "Upgrade"
OPERATIONS: Final = "Operations"
FLAGS: Final = "Feature flags"
CONFIGURATION: Final = "Configuration and Environment"
DEFINITIONS: Final = "Definitions"
PLUGIN_MANAGEMENT: Final = "Plugin Management"
OTHER: Final = "Other"
DEPRECATED: Final = "Deprecated"
NOT_BUILT: Final = "Not available with Warren"
SECTIONS: Final = (
    *(NODES, CLUSTER, REPLICATION, USERS, ACCESS, MONITORING, PARAMETERS, POLICIES, VHOSTS),
    *(OF_QUEUES, UPGRADES, OPERATIONS, FLAGS, CONFIGURATION, DEFINITIONS, PLUGIN_MANAGEMENT),
    *(OTHER, DEPRECATED, NOT_BUILT),
)
"""The sections of the list of commands, in order."""


def add(*commands: ToolCommand) -> None:
    """Enter commands in the table."""
    for command in commands:
        assert command.name not in COMMANDS, f"{command.name} is there already"
        COMMANDS[command.name] = command


def says(text: str) -> Callable[[ToolSession, Words], str]:
    """A banner; `{0}` is the first argument, `{vhost}` the vhost, `{node}` the node."""

    def banner(session: ToolSession, words: Words) -> str:
        return text.format(*words.arguments, vhost=words.vhost, node=session.node)

    return banner
