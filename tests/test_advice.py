"""What operators are advised is told to them, with the figures and names that the code has.

Nothing enforces advice; other tests prove that it can be followed. Here no page may lose it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.rules import PROVEN, read_rules
from warren.config.building import build
from warren.config.config import SETTINGS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SECTIONS = {
    *("NAME", "PROP", "ARG", "ORD", "DUR", "CQ", "MET", "ACK", "QQ", "QL", "DL", "PRI", "POI"),
    *("POL", "REP", "LEAD", "REB", "MEM", "CMR", "BEH", "CFG", "RES", "TUN", "CT"),
}
COMPARED = {"QQ-30"}
"""It compares with mirrored queues, which Warren does not have: nothing here to measure."""


def told(page: str, heading: str, point: str = "") -> str:
    """What stands below a heading, or in one point of its list, as one line."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.sub(r"\n +", " ", text.split(f"\n## {heading}\n")[1].split("\n## ")[0])
    if not point:
        return section.replace("\n", " ")
    (line,) = [line for line in section.splitlines() if line.startswith(f"- **{point}.**")]
    return line


@pytest.mark.rule("DUR-06")
def test_durable_queues_are_the_choice_for_most_uses() -> None:
    text = told("queues.md", "Which type")
    assert "declare it durable" in text
    assert "A durable queue costs no more throughput than another one" in text
    assert "what costs is to declare and delete queues very often" in text


@pytest.mark.rule("RES-05")
def test_how_much_memory_a_node_is_to_have_by_the_size_of_its_log() -> None:
    text = told("queues.md", "The machine", "Memory")
    size = build([]).raft_wal_max_size_bytes // 2**20
    assert f"`raft.wal_max_size_bytes` ({size}MiB)" in text
    assert "three times that in memory, four under load" in text


@pytest.mark.rule("TUN-02")
def test_how_the_readahead_of_a_disk_is_shown_and_set() -> None:
    text = told("queues.md", "The machine", "Disk")
    for words in ("`blockdev --getra ", "`blockdev --setra 4096 ", "try 256 to 4096"):
        assert words in text


@pytest.mark.rule("TUN-03")
def test_fast_disks_small_messages_few_members() -> None:
    text = told("queues.md", "The machine", "Disk")
    assert "take a fast one, and not one over a network" in text
    assert "Messages that are larger, and more members, cost throughput" in text


@pytest.mark.rule("REP-02", "BEH-07", "BEH-08")
def test_how_many_nodes_and_members() -> None:
    text = told("queues.md", "The machine", "Nodes")
    assert "Three are the least that survives the loss of one" in text
    assert "fewer cannot keep what quorum queues promise" in text
    assert "a majority of the nodes is enough for a queue" in text
    assert "An even number adds nothing" in text
    assert "more than five slow a queue down" in text and "more than seven nodes" in text


@pytest.mark.rule("TUN-05")
def test_latency_is_traded_for_throughput_and_measured() -> None:
    text = told("queues.md", "The machine", "Measure")
    assert "More publishes under way give more throughput for a longer latency of each" in text
    assert "PerfTest" in text and "with three, five and seven nodes" in text
    # What it names is there.
    assert re.search(r"^bench:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert (DOCS / "performance.md").exists()


@pytest.mark.rule("BEH-13")
def test_what_an_operators_strategy_resets_is_not_covered() -> None:
    text = told("operating-clusters.md", "Nodes")
    assert "a queue whose only member was there is deleted, with its messages" in text
    assert "messages that were confirmed may be lost, in these cases" in text


@pytest.mark.rule("DL-08", "DL-17")
def test_what_safe_dead_letters_cost_and_that_classic_queues_have_none() -> None:
    assert "that costs memory and processor time for each" in told(
        "queues.md", "Messages that keep failing"
    )
    assert "are not safe in a cluster (DL-17)" in told("queues.md", "Which type")


@pytest.mark.rule("CT-10")
def test_what_clients_meet_that_cannot_be_told_as_all_did_before() -> None:
    text = told("queues.md", "Consumers")
    assert "loses its channel, as all did before RabbitMQ 4.3" in text


@pytest.mark.rule("QQ-31")
def test_how_users_of_mirrored_queues_move_over() -> None:
    text = told("migrating.md", "From mirrored queues")
    for words in ("`ha-mode`", "`warren migrate`", '`"x-queue-type": "quorum"`'):
        assert words in text
    (key,) = re.findall(r"`(quorum_queue\.\S+) = true`", text)
    assert key in {setting.key for setting in SETTINGS}


def test_each_rule_of_queues_is_proven_or_of_a_feature_that_is_not_there() -> None:
    """What waits for a feature names it, and README.md says that it is not there yet."""
    proven = set(PROVEN.read_text(encoding="utf-8").split())
    rules = [each for each in read_rules() if each.id.partition("-")[0] in SECTIONS]
    assert len(rules) > 200
    unproven = {each.id for each in rules if not each.later} - proven
    assert unproven == COMPARED
    assert [each.id for each in rules if each.later and each.id in proven] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lacking = re.sub(r"\s+", " ", readme.split("\nNot yet: ")[1].split(".\n")[0])
    for each in rules:
        for feature in each.later.split(" and "):
            assert feature in lacking, f"{each.id} waits for {feature}"
