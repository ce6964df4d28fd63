"""The command `warren groups`: what readers of class `table` hold of a queue, and its repair."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warren.admin.cli.client import URI, complain
from warren.admin.cli.status import duration
from warren.admin.cli.words import Parser, checked, examples

if TYPE_CHECKING:
    from warren.client.table import GroupState
    from warren.spark.settling import Reset

SHOWN_MAX: Final = 20
"""Open checkouts that are shown one by one."""


def add_command(commands: Any) -> None:
    """Define its words."""
    command: Parser = commands.add_parser(
        "groups",
        help="show what groups of readers hold of a queue, settle it or give it back",
        description="Show what groups of Spark's source and of archives hold of a queue, settle "
        "what a query has committed that will not run again, or give back what a group holds.",
        epilog=examples(
            "warren groups list orders",
            "warren groups show orders archiver",
            "warren groups settle orders archiver --checkpoint /data/orders-checkpoint",
            "warren groups reset orders archiver --to 7 --dry-run",
            "warren groups release orders archiver",
            "warren groups delete orders archiver",
        ),
    )
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    _action(actions, "list", "list the groups of a queue and what they hold")
    _action(actions, "show", "show what it has settled and what it holds")
    settle = _action(
        actions,
        "settle",
        "settle what a query's checkpoint says is committed; ends a query of the group that runs",
    )
    reset = _action(
        actions,
        "reset",
        "set it back: what it holds up to a checkout or a time is settled, all else given back",
    )
    _action(
        actions,
        "release",
        "give back what it holds, with nothing settled; ends a query of the group that runs",
    )
    _action(
        actions,
        "delete",
        "remove it and give back what it holds; ends a query of the group that runs, and one of "
        "its checkpoint is refused from then on",
    )
    settle.add_argument(
        "--checkpoint", metavar="DIR", required=True, help="the query's checkpointLocation"
    )
    reset.add_argument(
        "--to",
        metavar="PLACE",
        required=True,
        type=checked(parse_place),
        help="the number of the last checkout that counts as processed; a time such as "
        "2026-01-31T12:00:00Z, for those opened before it; or start, for none of them",
    )
    reset.add_argument(
        "--dry-run", action="store_true", help="only say what would be lost and what come twice"
    )
    reset.add_argument(
        "--force", action="store_true", help="also while a query of the group runs, which it ends"
    )


def parse_place(text: str) -> tuple[int | None, int | None]:
    """The number of a checkout, or a time in ms since 1970; `ValueError` with what is allowed."""
    if text == "start":
        return None, None
    if text.isascii() and text.isdigit():
        return int(text), None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("start, the number of a checkout, or a time") from None
    if moment.tzinfo is None:
        raise ValueError("a time with its zone, such as 2026-01-31T12:00:00Z")
    return None, int(moment.timestamp() * 1000)


def _action(actions: Any, name: str, text: str) -> Parser:
    action: Parser = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
    action.set_defaults(run=run)
    action.add_argument("queue", metavar="QUEUE")
    if name != "list":
        action.add_argument("group", metavar="GROUP", help="the option groupId of the query")
    shown = URI.replace("%", "%%")
    action.add_argument("--uri", default=URI, help=f"broker, user and vhost (default: {shown})")
    return action


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    from warren.errors import BrokerError, ConfigError
    from warren.spark.settling import (
        delete_group,
        group_state,
        groups_of,
        release_group,
        reset_group,
        settle_by_checkpoint,
    )

    try:
        if words.action == "list":
            return show_all(groups_of(words.queue, words.uri))
        if words.action == "delete":
            gone = delete_group(words.queue, words.group, words.uri)
            print(f"group '{gone.name}' is deleted; {gone.held} messages are back in the queue")
            return 0
        if words.action == "release":
            found = release_group(words.queue, words.group, words.uri)
            print(f"{found.held} messages are back in the queue")
        if words.action == "reset":
            number, since_ms = words.to
            done = reset_group(
                words.queue, words.group, words.uri, number, since_ms, words.dry_run, words.force
            )
            for line in reset_lines(done, words.dry_run):
                print(line)
        if words.action == "settle":
            number = settle_by_checkpoint(
                words.queue, words.group, Path(words.checkpoint), words.uri
            )
            print(f"settled up to checkout {number}")
        state = group_state(words.queue, words.group, words.uri)
    except ConfigError as error:
        return complain(str(error), 2)
    except (BrokerError, OSError) as error:
        return complain(f"{words.queue}: {str(error).partition('; option ')[0]}", 1)
    held = state.open
    rows = sum(each.messages for each in held)
    oldest_ms = max((each.age_ms for each in held), default=-1)
    oldest = f", the oldest for {age_text(oldest_ms)}" if oldest_ms >= 0 else ""
    print(
        f"group '{words.group}' of queue '{words.queue}': settled up to checkout {state.settled}, "
        f"{len(held)} open with {rows} messages{oldest}"
    )
    for each in held[:SHOWN_MAX]:
        age = f", open for {age_text(each.age_ms)}" if each.age_ms >= 0 else ""
        print(f"  checkout {each.number}: {each.messages} messages{age}")
    if len(held) > SHOWN_MAX:
        print(f"  and {len(held) - SHOWN_MAX} more")
    return 0


def reset_lines(done: Reset, dry_run: bool) -> list[str]:
    """What setting a group back came to, or would: what is lost and what comes twice."""
    would = "would be" if dry_run else "are"
    lines: list[str] = []
    if done.settled:
        lines.append(
            f"checkouts up to {done.settled} were settled before: their messages do not come back"
        )
    for checkouts, what, then in (
        (done.settle, "settled", "what no query has written of them is lost"),
        (done.give_back, "given back", "what a query has written of them comes twice"),
    ):
        if checkouts:
            rows = sum(each.messages for each in checkouts)
            first, last = checkouts[0].number, checkouts[-1].number
            named = f"checkout {first}" if first == last else f"checkouts {first} to {last}"
            lines.append(f"{rows} messages of {named} {would} {what}: {then}")
    if done.give_back:
        lines.append(
            "a query whose checkpoint names one of those is refused: begin with a new checkpoint "
            "and option newCheckpoint=true"
        )
    if not done.settle and not done.give_back:
        lines.append("the group holds nothing: nothing is lost, and nothing comes twice")
    return lines


def age_text(age_ms: int) -> str:
    """How long something has lasted, as one word; `-` if that is not known."""
    return duration(age_ms // 1000).replace(" ", "") if age_ms >= 0 else "-"


def show_all(groups: list[GroupState]) -> int:
    """Print a line for each group; the lease in seconds, for how long its oldest checkout has been
    open, and when it last called, in UTC."""
    lines: list[tuple[str, ...]] = [
        ("group", "settled", "open", "messages", "oldest", "lease", "called")
    ]
    for group in sorted(groups):
        called = datetime.fromtimestamp(group.called_ms / 1000, UTC)
        numbers = (str(group.settled), str(group.open), str(group.held))
        times = (age_text(group.oldest_ms), str(group.lease_ms // 1000))
        lines.append((group.name, *numbers, *times, f"{called:%Y-%m-%dT%H:%M:%SZ}"))
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    for line in lines:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )
    return 0
