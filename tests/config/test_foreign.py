"""Files written for RabbitMQ are taken: what sets nothing is said, or refused where it matters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.broker import Broker, free_port
from tools.configuration import PAGE, page
from warren.admin.cli.main import parser, server_config
from warren.admin.cli.tools.server import server_words
from warren.client import connect
from warren.config.advanced import advanced_entries
from warren.config.building import build
from warren.config.config import PATTERNS, SETTINGS, ServerConfig
from warren.config.foreign import FOREIGN, foreign_key
from warren.config.reading import parse_lines, read_file
from warren.errors import ConfigError

RABBITMQ_KEYS = Path(__file__).with_name("rabbitmq-4.3-keys.txt").read_text("utf-8").split()
"""All keys of RabbitMQ 4.3.6 and its plugins, `$` before what stands for a name."""


def config(text: str) -> ServerConfig:
    return build(parse_lines(text, "w.conf"))


def test_every_key_of_rabbitmq_is_taken_or_refused_with_a_reason() -> None:
    own = {setting.key for setting in SETTINGS}
    heads = {key.rpartition(".")[0] for key, _ in PATTERNS}
    whole = {key for key, _ in PATTERNS}
    taken = 0
    for key in RABBITMQ_KEYS:
        key = key.replace("$", "")
        if key in own or key in whole or key.rpartition(".")[0] in heads:
            taken += 1
            continue
        assert foreign_key(key) is not None, key
        try:
            (warning,) = config(f"{key} = 1").warnings
            assert warning.startswith(f"w.conf, line 1: {key} does nothing: ")
        except ConfigError as error:
            assert re.search(f"{key} = (1|\\.\\.\\.) cannot be had: ", str(error))
    assert taken > 60


OLDER = (
    *("autocluster.", "kernel.", "ra.", "osiris.", "sasl.", "ssl.", "amqp1_0.", "prometheus.ssl."),
    *("tcp_listen_options.", "tcp_listen_option.", "web_stomp.tcp.", "web_stomp.listener"),
    *("ssl_allow_poodle_attack", "cluster_formation.dns.", "management.oauth_disable_basic_auth"),
    *("vhost_process_reconciliation_run_interval", "vhost_process_reconciliation_enabled"),
    *("track_auth_attempt_source", "channel_operation_timeout"),
)
"""Those that older releases and `advanced.config` have."""


def test_each_key_is_one_of_rabbitmqs() -> None:
    unknown = {
        found.key
        for found in FOREIGN
        if found.key not in RABBITMQ_KEYS
        and not (found.key.endswith(".") and any(k.startswith(found.key) for k in RABBITMQ_KEYS))
    }
    assert unknown <= set(OLDER)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raft.wal_max_size_byte = 1000000", "did you mean raft.wal_max_size_bytes?"),
        ("log.consol.level = debug", "did you mean log.console.level?"),
        ("heartbeats = 10", "did you mean heartbeat?"),
        ("nonesuch = 1", "unknown key nonesuch"),
        ("auth_backends.1 = ldap", "allowed is internal"),
        ("mqtt.listeners.tcp.default = 1883", "MQTT is not spoken"),
        ("stream.listeners.tcp.default = 5552", "there are no streams yet"),
        ("management.listener.ssl = true", "older way to say it"),
        ("definitions.https.url = https://x", "from this machine's disk only"),
        ("queue_master_locator = x", "allowed is client-local or balanced"),
    ],
)
def test_what_must_not_be_ignored_is_refused(line: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(f"heartbeat = 1\n{line}")
    assert str(refused.value).startswith("w.conf, line 2: ") and said in str(refused.value)


def test_what_asks_for_what_is_so_is_not_told_of() -> None:
    got = config(
        "auth_backends.1 = internal\nlog.console = true\nlog.file = false\n"
        "default_user_tags.administrator = true\ndefault_permissions.read = .*\n"
        "queue_master_locator = min-masters\nlog.default.level = debug\n"
        "definitions.import_backend = local_filesystem\ndefinitions.local.path = /d.json\n"
    )
    assert got.warnings == ()
    assert (got.queue_leader_locator, got.log_level) == ("balanced", "debug")
    assert got.load_definitions == "/d.json"


def test_advanced_configuration_as_the_guides_have_it(tmp_path: Path) -> None:
    path = tmp_path / "advanced.config"
    path.write_text(
        """[
         %% five replicas by default
         {rabbit, [{quorum_cluster_size, 5},
                   {quorum_commands_soft_limit, 64},
                   {consumer_timeout, 60000},
                   {dead_letter_worker_consumer_prefetch, 64},
                   {vm_memory_high_watermark, {absolute, "2GB"}},
                   {default_user, <<"boss">>}]},
         {ra, [{wal_max_size_bytes, 64000000}]}
        ].
        """
    )
    got = build(read_file(str(path)))
    assert (got.quorum_cluster_size, got.quorum_commands_soft_limit) == (5, 64)
    assert (got.consumer_timeout, got.dead_letter_prefetch) == (60_000, 64)
    assert (got.raft_wal_max_size_bytes, got.default_user) == (64_000_000, "boss")
    assert got.vm_memory_high_watermark_absolute == 2_000_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[\n{rabbit, [{a, 1}]}", "line 2: the end is not expected there"),
        ("[{rabbit, [1]}].", "line 1: expected {KEY, VALUE}"),
        ("\n[rabbit].", "line 2: expected {APPLICATION"),
        ("[] []", "line 1: [ is not expected there"),
        ("[{rabbit, [{a, #{b}}]}].", "line 1: } is not expected there"),
        ("[{rabbit, [{a, ~b}]}].", "line 1: not an Erlang term: ~b"),
        ("[" * 1_000, "[ is not expected there"),
    ],
)
def test_terms_that_are_not_understood_are_named_with_their_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        advanced_entries(text, "advanced.config")
    assert said in str(refused.value)


def test_a_folder_of_files_is_read_by_names(tmp_path: Path) -> None:
    (tmp_path / "20-b.conf").write_text("heartbeat = 20\n")
    (tmp_path / "10-a.conf").write_text("heartbeat = 10\nchannel_max = 7\n")
    (tmp_path / "notes.txt").write_text("no configuration")
    got = build(read_file(str(tmp_path)))
    assert (got.heartbeat, got.channel_max) == (20, 7)


def test_the_environment_of_images_is_heeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.conf").write_text("heartbeat = 10\ndefault_user = other\n")
    (tmp_path / "rabbitmq.conf").write_text("heartbeat = 30\nchannel_max = 9\n")
    (tmp_path / "advanced.config").write_text("[{rabbit, [{quorum_cluster_size, 5}]}].")
    environment = {
        "RABBITMQ_NODENAME": "rabbit@here",
        "RABBITMQ_NODE_PORT": "5699",
        "RABBITMQ_CONFIG_FILE": str(tmp_path / "rabbitmq"),
        "RABBITMQ_CONFIG_FILES": str(tmp_path / "conf.d"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(tmp_path / "advanced"),
        "RABBITMQ_MNESIA_BASE": str(tmp_path / "base"),
        "RABBITMQ_DEFAULT_USER": "boss",
        "RABBITMQ_DEFAULT_PASS": "a # 'secret' $(x)",
        "RABBITMQ_DEFAULT_VHOST": "v",
        "RABBITMQ_LOG": "debug",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    words = server_words(environment, [])
    assert not any("secret" in word for word in words), "any user of the machine may read them"
    got = server_config(parser().parse_args(words))
    assert (got.node_name, got.listeners) == ("rabbit@here", (("", 5699),))
    assert (got.heartbeat, got.channel_max, got.quorum_cluster_size) == (10, 9, 5)
    assert got.data_dir == str(tmp_path / "base" / "warren" / "rabbit@here")
    assert (got.default_user, got.default_pass, got.default_vhost) == (
        "boss",
        "a # 'secret' $(x)",
        "v",
    )
    assert got.log_level == "debug"


def test_the_page_about_keys_is_up_to_date() -> None:
    """Else `python tools/configuration.py` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.process
def test_definitions_are_there_before_clients_come(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queue = {"name": "q", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {}}
    rights = {"user": "guest", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*"}
    file.write_text(
        json.dumps({"vhosts": [{"name": "v"}], "permissions": [rights], "queues": [queue]})
    )
    broker = Broker(
        free_port(),
        tmp_path / "broker",
        options=["--set", f"load_definitions={file}", "--set", "mqtt.vhost=/"],
    ).start()
    try:
        with connect(broker.url.replace("%2F", "v")) as connection:
            channel = connection.channel()
            channel.queue_declare("q", passive=True)
        assert "mqtt.vhost does nothing: MQTT is not spoken" in broker.log_text()
    finally:
        broker.stop()
