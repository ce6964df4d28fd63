"""The commands that RabbitMQ's guides show, as they are written there, on a real broker."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.clients.support import eventually
from tests.conftest import ROOT
from tests.ctl.play import in_process
from tests.support.broker import HOST, Broker, free_port
from tests.support.patience import patient
from warren.__main__ import main
from warren.admin.cli import client
from warren.admin.cli.asking import FOLDER_VARIABLE
from warren.admin.cli.tools.session import NODE_VARIABLE

pytestmark = pytest.mark.process
WAIT_S = patient(20.0)
NODE = "rabbit@localhost"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that all tests here ask."""
    options = ["--cluster-port", str(free_port()), "--node-name", NODE]
    broker = Broker(free_port(), tmp_path_factory.mktemp("guides") / "broker", options=options)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def broker(running: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """The same, which the tools ask because the environment names its data directory."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(running.data_dir))
    monkeypatch.setenv(NODE_VARIABLE, NODE)
    yield running
    channel = channel_of(running)
    for row in rows("rabbitmqctl list_queues name"):
        channel.queue_delete(row["name"])
    for row in rows("rabbitmqctl list_policies"):
        said(f"rabbitmqctl clear_policy {row['name']}")
    channel.connection.close()


def said(words: str, code: int = 0) -> str:
    """What a command writes, which has to end with this code."""
    done = in_process(shlex.split(words), "")
    assert done[0] == code, done
    return done[1] if code == 0 else done[2]


def rows(words: str) -> list[dict[str, Any]]:
    """What it lists."""
    found: list[dict[str, Any]] = json.loads(said(f"{words} --formatter json"))
    return found


def channel_of(broker: Broker) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters(HOST, broker.port)).channel()


@pytest.mark.rule("MET-02")
@pytest.mark.rule("MET-06")
def test_queues_are_listed_with_their_figures(broker: Broker) -> None:
    """Ready messages and those that a consumer holds, of both types of queues."""
    channel = channel_of(broker)
    for name in ("classic", "quorum"):
        arguments = {"x-queue-type": name}
        channel.queue_declare(name, durable=True, arguments=arguments)
        for _ in range(5):
            channel.basic_publish("", name, b"four")
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume(name, lambda *_: None)
    channel.connection.process_data_events(0)
    columns = "messages_ready messages_unacknowledged messages consumers message_bytes"
    wanted = {"messages_ready": 3, "messages_unacknowledged": 2, "messages": 5, "consumers": 1}

    def figures() -> list[dict[str, Any]]:
        found = rows(f"rabbitmqctl list_queues {columns}")
        assert all(row.pop("message_bytes") >= 20 for row in found)
        return found

    eventually(lambda: figures() == [wanted, wanted], WAIT_S)
    lines = said("rabbitmqctl list_queues name messages").splitlines()
    assert lines[:2] == ["Timeout: 60.0 seconds ...", "Listing queues for vhost / ..."]
    assert lines[2:] == ["name\tmessages", "classic\t5", "quorum\t5"]
    assert said("rabbitmqctl purge_queue quorum --quiet") == ""
    eventually(lambda: figures()[1]["messages_ready"] == 0, WAIT_S)


@pytest.mark.rule("ARG-11")
@pytest.mark.rule("CT-06")
def test_policies_of_the_guides(broker: Broker) -> None:
    """Each policy that the guides set is in force for the queues that they name."""
    channel = channel_of(broker)
    for name in ("qq.one", "two.replicas", "ha.log"):
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    said(
        "rabbitmqctl set_policy qq-overrides '^qq\\.' '{\"delivery-limit\": 50}' --priority 123 "
        "--apply-to quorum_queues"
    )
    said(
        'rabbitmqctl set_policy consumer-timeout-policy ".*" \'{"consumer-timeout": 60000}\' '
        "--apply-to quorum_queues"
    )
    found = {row["name"]: row for row in rows("rabbitmqctl list_queues name policy")}
    assert found["qq.one"]["policy"] == "qq-overrides"
    assert found["ha.log"]["policy"] == "consumer-timeout-policy"
    # There are no mirrored queues any more, as with RabbitMQ 4.
    refused = said(
        "rabbitmqctl set_policy ha-two '^two\\.' "
        '\'{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}\'',
        69,
    )
    assert "are not recognised policy settings" in refused


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("rabbitmq-queues add_member [-p /] orders {node}", ""),
        ("rabbitmq-queues grow {node} all --vhost-pattern 'a-vhost' --queue-pattern 'q.*'", ""),
        ("rabbitmq-queues grow {node} even", ""),
        ("rabbitmq-queues rebalance quorum", "Number of quorum queues"),
        ("rabbitmq-queues rebalance quorum --queue-pattern 'orders.*'", "Number of quorum"),
        ("rabbitmq-queues rebalance quorum --vhost-pattern 'production.*'", "Number of quorum"),
        ("rabbitmq-queues quorum_status orders", "Raft State"),
        ("rabbitmqctl cluster_status", "Running Nodes"),
        ("rabbitmqctl list_queues name policy pid slave_pids", "orders"),
        ("rabbitmqctl list_queues name slave_pids synchronised_slave_pids", "orders"),
    ],
)
def test_other_commands_of_the_guides(broker: Broker, words: str, text: str) -> None:
    channel_of(broker).queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum"})
    plain = words.replace("[", "").replace("]", "").replace("{node}", NODE)
    assert text in said(plain)


@pytest.mark.parametrize("words", ["rabbitmqctl sync_queue q", "rabbitmqctl cancel_sync_queue q"])
def test_what_is_not_built_says_so(broker: Broker, words: str) -> None:
    assert "is not available with Warren: there are no mirrored queues" in said(words, 69)


@pytest.mark.parametrize(
    ("low", "enough", "text"),
    [
        ("rabbitmqctl set_disk_free_limit 1000000GB", "set_disk_free_limit 1MB", "disk alarm"),
        (
            "rabbitmqctl set_vm_memory_high_watermark absolute 1MB",
            "set_vm_memory_high_watermark 0.9",
            "memory alarm",
        ),
    ],
)
def test_limits_of_memory_and_disk_count_at_once(
    broker: Broker, low: str, enough: str, text: str
) -> None:
    """Publishers wait as soon as there is less than the operator wants, and go on then."""
    check = ["rabbitmq-diagnostics", "check_alarms"]
    assert in_process(check, "")[0] == 0
    said(low)
    eventually(lambda: in_process(check, "")[0] == 69, WAIT_S)
    assert text in in_process(check, "")[2]
    assert text in in_process(["rabbitmq-diagnostics", "check_local_alarms"], "")[2]
    said(f"rabbitmqctl {enough}")
    eventually(lambda: in_process(check, "")[0] == 0, WAIT_S)


def test_a_level_of_the_log_counts_at_once(broker: Broker) -> None:
    def comings() -> int:
        return broker.log_text().count("accepting AMQP")

    said("rabbitmqctl set_log_level error")
    told = comings()
    channel_of(broker).connection.close()
    assert comings() == told
    said("rabbitmqctl set_log_level info")
    channel_of(broker).connection.close()
    eventually(lambda: comings() > told, WAIT_S)


def test_the_first_hour_is_as_written(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of docs/first-hour.md, but for the first, which names a checkout's folders.

    Those about a cluster are tried by tests/admin/test_dev_cluster.py.
    """
    monkeypatch.setattr(client, "URI", broker.url)
    text = (ROOT / "docs" / "first-hour.md").read_text("utf-8").partition("5. **A cluster")[0]
    blocks = re.findall(r"^ *```\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    assert lines[0].startswith("export ") and FOLDER_VARIABLE in lines[0] and len(lines) >= 8
    for line in lines[1:]:
        tool, *words = shlex.split(line)
        if tool == "warren":
            assert main(words) == 0, line
        else:
            said(line)
    assert "three carrots" in capsys.readouterr().out
    assert rows("rabbitmqctl list_permissions -p shop")[-1]["user"] == "clerk"
    said("rabbitmqctl delete_vhost shop")
    said("rabbitmqctl delete_user clerk")


def test_a_data_directory_that_is_none_is_said(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as changed:
        changed.delenv(NODE_VARIABLE)
        changed.setenv(FOLDER_VARIABLE, __file__)
        assert "Not a directory" in said("rabbitmqctl list_queues", 69)
        assert main(["status"]) == 2
    assert "Not a directory" in capsys.readouterr().err


def test_a_limit_of_memory_is_in_force_when_the_command_returns(broker: Broker) -> None:
    """As with RabbitMQ: scripts publish behind it, and count on being blocked, or on not being."""
    check = ["rabbitmq-diagnostics", "check_local_alarms"]
    for _ in range(5):
        said("rabbitmqctl set_vm_memory_high_watermark absolute 1MB")
        assert in_process(check, "")[0] == 69
        said("rabbitmqctl set_vm_memory_high_watermark 0.9")
        assert in_process(check, "")[0] == 0


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_suites_of_clients_raise_alarms(broker: Broker, resource: str) -> None:
    """The Java client's and others send these expressions; the alarm stays until it is cleared."""
    check = ["rabbitmq-diagnostics", "check_local_alarms"]
    what = f"resource_limit, {resource}, node()"
    for _ in range(2):
        raising = ["rabbitmqctl", "eval", f"rabbit_alarm:set_alarm({{{{{what}}}, []}})."]
        assert in_process(raising, "")[:2] == (0, "ok\n")
        assert in_process(check, "")[0] == 69
    # What is measured meanwhile does not end it.
    said("rabbitmqctl set_vm_memory_high_watermark 0.9")
    assert in_process(check, "")[0] == 69
    clearing = ["rabbitmqctl", "eval", f"rabbit_alarm:clear_alarm({{{what}}})."]
    assert in_process(clearing, "")[:2] == (0, "ok\n")
    assert in_process(check, "")[0] == 0


def test_suites_of_clients_set_how_many_channels_there_may_be(broker: Broker) -> None:
    for most in (1_000, 2_047):
        setting = ["rabbitmqctl", "eval", f"application:set_env(rabbit, channel_max, {most})."]
        assert in_process(setting, "")[:2] == (0, "ok\n")
        connection = channel_of(broker).connection
        assert connection._impl.params.channel_max == most
        connection.close()
    above = ["rabbitmqctl", "eval", "application:set_env(rabbit, channel_max, 65536)."]
    assert in_process(above, "")[0] != 0


@pytest.mark.parametrize("text", ["1 + 1.", "init:stop().", 'os:cmd("id").', "node(). node()."])
def test_no_other_expression_is_evaluated(broker: Broker, text: str) -> None:
    code, out, complaint = in_process(["rabbitmqctl", "eval", text], "")
    assert (code, out) == (69, "") and "Warren runs on no Erlang" in complaint
