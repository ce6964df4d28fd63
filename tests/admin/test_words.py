"""The words of the command `warren`: where options may stand, and what wrong words are told."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from warren.__main__ import main
from warren.admin.cli import inspect, pipeline, queues
from warren.admin.cli import main as cli


def parsed(*words: str) -> argparse.Namespace:
    return cli.parser().parse_args(list(words))


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("command", ["cluster status", "queues list", "policies list_policies"])
def test_options_stand_before_and_after_the_action(command: str) -> None:
    name, action = command.split()
    for words in (
        [name, "--data-dir", "d", "--json", "--contact", "h:1", action],
        [name, action, "--data-dir", "d", "--json", "--contact", "h:1"],
        [name, "--data-dir", "other", action, "--data-dir", "d", "--json", "--contact", "h:1"],
    ):
        got = parsed(*words)
        assert (got.data_dir, got.json, got.contact) == ("d", True, ("h", 1))
    bare = parsed(name, action)
    assert (bare.data_dir, bare.json, bare.secret_file) == (None, False, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("server --po 2", "unknown option --po: did you mean --port?"),
        ("server --prot=2", "unknown option --prot: did you mean --port?"),
        ("queues list --jsn", "unknown option --jsn: did you mean --json?"),
        ("cluster --dat-dir d status", "unknown option --dat-dir: did you mean --data-dir?"),
        ("statsu", "did you mean status?"),
        ("cluster stat", "did you mean status?"),
        ("queues lst", "did you mean list?"),
        ("server --log-level inof", "did you mean info?"),
        ("publish orders a b", "unexpected: b"),
        ("get orders --count 0", "from 1 to"),
        ("dev cluster --port 60000", "from 1 to 45533"),
        ("zzzz", "it is one of server, status"),
    ],
)
def test_wrong_words_get_the_nearest_right_one(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = refusal(words.split(), capsys)
    assert said in text
    assert "usage: warren" in text and "--help" in text


def test_a_wrong_key_gets_the_nearest_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "--set", "heartbeet=1"]) == 2
    assert "unknown key heartbeet, did you mean heartbeat?" in capsys.readouterr().err


def pages(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The words of every page of help."""
    yield " ".join(words)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from pages(inner, (*words, name))


@pytest.mark.parametrize("command", list(pages(cli.parser())))
def test_help_fits_and_says_something(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert not re.search(r"\(default:? *\)", text)
    if len(command.split()) < 2:
        assert "examples:\n  warren" in text


def test_examples_are_right() -> None:
    """Every example of the help can be parsed as it stands."""
    import shlex

    from warren.admin.cli import access, client, cluster, feed, policies, queues, status

    texts = [cli.EXAMPLES, cli.SERVER_EXAMPLES]
    texts += [module.EXAMPLES for module in (cluster, feed, policies, queues, status)]
    texts += [
        access.USER_EXAMPLES,
        access.VHOST_EXAMPLES,
        access.PERMISSION_EXAMPLES,
        access.LIMIT_EXAMPLES,
    ]
    texts += [
        "  warren declare log --type classic",
        "  warren publish --exchange amq.topic orders.new - < order.json",
    ]
    assert client.URI.startswith("amqp://")
    found = 0
    for text in texts:
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("  warren ") and "--help" not in line:
                parsed(*shlex.split(line.split(" < ")[0], comments=True)[1:])
                found += 1
    assert found > 15


def test_names_and_bodies_that_clients_chose_move_no_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A terminal obeys what is in them, as to show other words than there are."""
    hostile = "q\x1b[2J\r\n\x9b1A\u202e"
    shown = "q\\x1b[2J\\r\\n\\x9b1A\\u202e"
    assert queues.table([{"name": hostile}]) == f"name\n{shown}"
    assert pipeline.table([("a", hostile)]) == [f"a  {shown}"]
    known = {"type": "quorum", "incarnation": 1, "messages": {}, "damage": [], "deleted": True}
    inspect.show([{"vhost": hostile, "name": hostile, **known}])
    assert f"{shown}  {shown} (deleted)" in capsys.readouterr().out
