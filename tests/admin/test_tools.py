"""RabbitMQ's tools without a broker: words, formatters, and how a node is found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ctl.play import in_process
from tests.support.broker import Broker, free_port
from warren.admin.cli.asking import FOLDER_VARIABLE
from warren.admin.cli.tools.command import (
    COMMANDS,
    AmqpTable,
    Atoms,
    Terms,
    ToolAnswer,
    ToolRows,
    Words,
)
from warren.admin.cli.tools.main import of_tool
from warren.admin.cli.tools.server import server_words
from warren.admin.cli.tools.session import NODE_VARIABLE
from warren.admin.cli.tools.showing import FORMATTERS, shown
from warren.admin.service.rows import Health

TOOLS = (
    "rabbitmqctl",
    "rabbitmq-queues",
    "rabbitmq-diagnostics",
    "rabbitmq-upgrade",
    "rabbitmq-plugins",
    "rabbitmq-streams",
)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_command_has_help(tool: str) -> None:
    code, out, _ = in_process([tool, "help"], "")
    assert code == 0
    for name, command in of_tool(tool).items():
        assert f"   {name} " in out
        assert in_process([tool, "help", name], "")[0] == 0
        assert in_process([tool, name, "--help"], "")[0] == 0
        assert command.text[0].isupper() and not command.text.endswith(".")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("rabbitmqctl list_queues --nonesuch", "--nonesuch : "),
        ("rabbitmqctl list_queues -t", "-t : "),
        ("rabbitmqctl list_queues -t -5", "-t : -5"),
        ("rabbitmqctl set_policy a b c --priority x", "--priority : x"),
        ("rabbitmqctl list_queues nonesuch", "Info key(s) nonesuch are not supported"),
        ("rabbitmqctl list_queue", "Did you mean 'list_queues'?"),
        ("rabbitmq-queues list_queues", "Command 'list_queues' not found"),
        ("rabbitmqctl list_users --formatter nonesuch", "it is one of table"),
    ],
)
def test_wrong_words_are_refused(words: str, text: str) -> None:
    code, out, err = in_process(words.split(), "")
    assert (code, out) == (64, "") and text in err


def test_options_stand_anywhere() -> None:
    for words in (
        "rabbitmqctl --formatter json -n no@where list_queues -p v --timeout=1",
        "rabbitmqctl list_queues --vhost=v -n no@where -t 1 --no-table-headers",
        "rabbitmqctl -q list_queues -- name",
    ):
        assert in_process(words.split(), "")[0] == 69


def test_a_node_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.delenv(NODE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    code, out, err = in_process(["rabbitmqctl", "list_users"], "")
    assert (code, out) == (69, "")
    assert "is not the data directory of a node: name one with --data-dir" in err
    code, out, err = in_process(["rabbitmqctl", "--contact", "127.0.0.1:1", "list_users"], "")
    assert code == 69


ROWS = ToolRows(
    ("name", "tags", "arguments", "definition", "count", "lacks"),
    [
        ["a\tb", Atoms(["x", "y"]), AmqpTable({"k": [1, {"z": True}]}), Terms({"m": 1}), 5, None],
        ["ü", Atoms(), AmqpTable(), Terms(), 0, None],
    ],
)


def test_each_formatter_shows_each_kind_of_value() -> None:
    table = shown(ROWS, "table", "n", True).splitlines()
    assert table[0] == "name\ttags\targuments\tdefinition\tcount\tlacks"
    assert table[1] == 'a\\tb\t[x, y]\t[{"k",[1,[{"z",true}]]}]\t[{<<"m">>, 1}]\t5\t'
    assert table[2] == "ü\t[]\t[]\t#{}\t0\t"
    assert shown(ROWS, "table", "n", False).splitlines() == table[1:]
    assert shown(ROWS, "csv", "n", True).splitlines()[2] == '"ü","[]","[]","#{}","0",""'
    found: list[dict[str, Any]] = json.loads(shown(ROWS, "json", "n", True))
    assert found[0] == {
        "name": "a\tb",
        "tags": ["x", "y"],
        "arguments": [["k", "array", [["long", 1], ["table", [["z", "bool", True]]]]]],
        "definition": {"m": 1},
        "count": 5,
        "lacks": "",
    }
    lines = shown(ROWS, "json_stream", "n", True).splitlines()
    assert [json.loads(line) for line in lines] == found
    assert "{tags,[x,y]}" in shown(ROWS, "erlang", "n", True)
    assert '<<"ü"/utf8>>' in shown(ROWS, "erlang", "n", True)
    frames = shown(ROWS, "pretty_table", "n", True).splitlines()
    assert len({len(line) for line in frames[0::2]}) == 1


HOSTILE = "\x1b[31m\r\x07\u202e\n"


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_names_move_no_cursor(formatter: str) -> None:
    """Whoever declares a queue chooses what an operator's terminal is shown."""
    row = [HOSTILE, Atoms([HOSTILE]), AmqpTable({HOSTILE: HOSTILE}), Terms({HOSTILE: HOSTILE})]
    text = shown(ToolRows(("a", "b", "c", "d"), [row]), formatter, "n", True)
    for mark in ("\x1b[31m", "\r", "\x07", "\u202e"):
        assert mark not in text or formatter in ("json", "json_stream") and mark == "\u202e"
    assert "\x1b" not in shown(ToolAnswer(HOSTILE), "", "n", True)


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_nothing_is_shown_as_nothing(formatter: str) -> None:
    empty = ToolRows(("name",), [], "", True)
    assert shown(empty, formatter, "n", True).strip() in ("", "[\n]", "[]")
    assert isinstance(shown(ToolAnswer("done"), formatter, "n", True), str)


def test_a_server_is_started_as_the_environment_says(tmp_path: Path) -> None:
    file = tmp_path / "rabbitmq.conf"
    file.write_text("heartbeat = 10\n")
    environment = {
        "RABBITMQ_NODENAME": "rabbit@host",
        "RABBITMQ_NODE_PORT": "5673",
        "RABBITMQ_CONFIG_FILE": str(tmp_path / "rabbitmq"),
        "WARREN_DATA_DIR": "/data",
        "HOME": "/",
    }
    assert server_words(environment, ["--log-level", "debug"]) == [
        *("server", "--node-name", "rabbit@host", "--port", "5673", "--data-dir", "/data"),
        *("--config", str(file), "--log-level", "debug"),
    ]
    assert server_words({}, []) == ["server"]


TOLD = {"total": 1_000_000, "code": 100_000, "binary": 1, "allocated_unused": 0}


class Answering:
    """In the place of a node: it answers each operation with what it is given."""

    node = "a@h"

    def ask(self, operation: str, arguments: dict[str, Any], shape: Any) -> Any:
        assert (operation, arguments) == ("memory_breakdown", {})
        return {**TOLD, "other_proc": 899_999, "mnesia": 0}


@pytest.mark.parametrize(
    ("unit", "first", "last"),
    [
        ("", "other_proc: 0.0009 gb (90.0%)", "mnesia: 0.0 gb (0.0%)"),
        ("MB", "other_proc: 0.9 mb (90.0%)", "mnesia: 0.0 mb (0.0%)"),
        ("kib", "other_proc: 878.9053 kib (90.0%)", "mnesia: 0.0 kib (0.0%)"),
        ("bytes", "other_proc: 899999 bytes (90.0%)", "mnesia: 0 bytes (0.0%)"),
    ],
)
def test_memory_is_told_in_units(unit: str, first: str, last: str) -> None:
    session: Any = Answering()
    options = {"unit": unit} if unit else {}
    answer = COMMANDS["memory_breakdown"].run(session, Words([], options, []))
    assert isinstance(answer, ToolAnswer)
    lines = answer.text.split("\n")
    assert lines[0] == first and last in lines
    assert len(lines) == len(answer.value) == 5
    assert sum(part["bytes"] for part in answer.value.values()) == TOLD["total"]


@pytest.mark.parametrize(
    ("formatter", "text"),
    [
        ("table", "#{bytes => 100000, percentage => 10.0}"),
        ("erlang", "{code,#{bytes => 100000,percentage => 10.0}}"),
        ("csv", '"code.percentage","code.bytes"'),
        ("pretty_table", " code "),
        ("json", '"code":{"bytes":100000,"percentage":10.0}'),
    ],
)
def test_memory_is_told_in_all_forms(formatter: str, text: str) -> None:
    session: Any = Answering()
    words = Words([], {"formatter": formatter}, [])
    answer = COMMANDS["memory_breakdown"].run(session, words)
    assert answer is not None and text in shown(answer, formatter, "a@h", True)


def test_versions_are_of_the_form_that_other_tools_look_for() -> None:
    """Ansible's modules, Puppet's facts and scripts find RabbitMQ's version by such patterns."""
    for tool in TOOLS:
        code, out, _ = in_process([tool, "version"], "")
        assert code == 0 and re.fullmatch(r"\d+\.\d+\.\d+\n", out)


@pytest.mark.process
def test_versions_of_a_node_are_of_that_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(free_port(), tmp_path / "b")
    broker.management = str(free_port())
    broker.start()
    try:
        monkeypatch.setenv(FOLDER_VARIABLE, str(broker.data_dir))
        monkeypatch.delenv(NODE_VARIABLE, raising=False)

        def said(*words: str) -> str:
            code, out, err = in_process([*words], "")
            assert code == 0, err
            return out

        pattern = r"RabbitMQ version: (?P<version>\d+\.\d+\.\d+)\n"
        assert re.search(pattern, said("rabbitmqctl", "status")), (
            "as Ansible's rabbitmq_user has it"
        )
        found = json.loads(said("rabbitmqctl", "status", "--formatter", "json"))
        (version,) = re.findall(pattern, said("rabbitmqctl", "-q", "status"))
        assert found["rabbitmq_version"] == version and found["product_name"] == "Warren"
        assert said("rabbitmq-diagnostics", "-q", "server_version").strip() == version
        cluster = json.loads(said("rabbitmqctl", "cluster_status", "--formatter", "json"))
        (row,) = cluster["versions"].values()
        assert (row["rabbitmq_name"], row["rabbitmq_version"]) == ("RabbitMQ", version)
        assert f": RabbitMQ {version} (Warren " in said("rabbitmqctl", "cluster_status")
        definitions = json.loads(said("rabbitmqctl", "export_definitions", "-"))
        assert definitions["rabbitmq_version"] == version
        plugins = json.loads(said("rabbitmq-plugins", "list", "--formatter", "json"))["plugins"]
        assert {plugin["version"] for plugin in plugins} == {version}
        ask_as_ansible(said, broker.data_dir)
    finally:
        broker.stop()


def ask_as_ansible(said: Callable[..., str], data_dir: Path) -> None:
    """What modules of Ansible's collection for RabbitMQ ask, once and once more.

    `rabbitmq_plugin` disables all plugins that were asked for but those that it is to enable;
    `rabbitmq_feature_flag` and `rabbitmq_upgrade` look for RabbitMQ's flags by name.
    """

    def asked_for() -> set[str]:
        return set(said("rabbitmq-plugins", "-q", "list", "-E", "-m").split())

    wanted = {"rabbitmq_management", "rabbitmq_consistent_hash_exchange"}
    assert asked_for() == {"rabbitmq_management"}
    said("rabbitmq-plugins", "enable", "--online", "rabbitmq_consistent_hash_exchange")
    assert asked_for() == wanted
    assert asked_for() < set(said("rabbitmq-plugins", "-q", "list", "-e", "-m").split())
    kept = (data_dir / "enabled_plugins").read_text(encoding="ascii")
    assert kept == "[rabbitmq_consistent_hash_exchange,rabbitmq_management].\n"
    lines = said("rabbitmqctl", "-q", "list_feature_flags").splitlines()
    flags = dict(line.split("\t") for line in lines[1:])
    for name in ("quorum_queue", "maintenance_mode_status", "picked_messages"):
        assert flags[name] == "enabled"
        said("rabbitmqctl", "enable_feature_flag", name)
    assert "stream_queue" not in flags, "there are none"


@pytest.mark.parametrize("formatter", ["json", "json_stream"])
def test_an_answer_says_in_json_whether_it_was_done(formatter: str) -> None:
    """By the exit code, where a command says nothing of its own."""
    for code, told in (
        (0, {"node": "n", "result": "ok", "value": "text"}),
        (69, {"node": "n", "result": "error", "message": "text"}),
    ):
        assert json.loads(shown(ToolAnswer("text", None, code), formatter, "n", True)) == told
    assert json.loads(shown(ToolAnswer(), formatter, "n", True)) == {"node": "n", "result": "ok"}


class Checked:
    """Stands in for a node in which all is well, or all fails."""

    node = "n"

    def __init__(self, ok: bool) -> None:
        self._ok = ok

    def ask(self, operation: str, *rest: Any, **named: Any) -> Health:
        found = {"ports": [1], "protocols": ["amqp"], "resource": "disk", "node": "n", "name": "v"}
        return Health(ok=self._ok, reason="" if self._ok else "why", details=[found])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("check_running", []),
        ("check_local_alarms", []),
        ("check_alarms", []),
        ("check_port_listener", ["8888"]),
        ("check_protocol_listener", ["amqp"]),
        ("check_virtual_hosts", []),
    ],
)
def test_a_check_that_fails_says_so_in_json(name: str, arguments: list[str]) -> None:
    """With an exit code that scripts see; one that passes says that it did."""
    command = of_tool("rabbitmq-diagnostics")[name]
    for ok, result in ((False, "error"), (True, "ok")):
        output = command.run(Checked(ok), Words(arguments, {}, arguments))  # type: ignore[arg-type]
        assert isinstance(output, ToolAnswer)
        found = json.loads(shown(output, "json", "n", True))
        assert found["result"] == result and (output.code == 0) is ok, found
