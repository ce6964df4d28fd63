"""Configuration files and options: what is taken, what wins, and what every refusal says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.__main__ import main
from warren.admin.cli.main import parser, server_config
from warren.config.building import build, check_clients, check_web
from warren.config.config import PATTERNS, SETTINGS, ServerConfig
from warren.config.reading import parse_lines
from warren.errors import ConfigError
from warren.server.settings import (
    management_plain,
    management_tls,
    prometheus_plain,
    prometheus_tls,
    settings_from,
)


def config(text: str, **options: object) -> ServerConfig:
    return build(parse_lines(text, "w.conf"), **options)  # type: ignore[arg-type]


def test_defaults_are_rabbitmqs() -> None:
    got = config("")
    assert got.listeners == (("", 5672),)
    assert re.fullmatch(r"rabbit@[^.]+", got.node_name)
    assert got.data_dir.endswith(f"warren/{got.node_name}")
    assert (got.heartbeat, got.frame_max, got.channel_max) == (60, 131_072, 2_047)
    assert (got.handshake_timeout, got.max_message_size) == (10_000, 16_777_216)
    assert got.disk_limit_bytes(1 << 34) == 50_000_000
    assert got.loopback_users == ("guest",)


def test_a_whole_file() -> None:
    got = config(
        """
        # A comment.
        listeners.tcp.1 = 5673
        listeners.tcp.two=127.0.0.1:5674   # behind a value
        listeners.tcp.three = [::1]:5675
        heartbeat = 30
        frame_max = 0
        channel_max = 0
        vm_memory_high_watermark.absolute = 2GB
        disk_free_limit.absolute = 512MiB
        raft.wal_max_size_bytes = 64 M
        default_pass = 'a # b = c'
        loopback_users.ops = true
        loopback_users.guest = false
        consumer_timeout = 60000
        default_queue_type = quorum
        quorum_queue.commands_soft_limit = 64
        quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = true
        log.console.level = WARNING
        heartbeat = 31
        """
    )
    assert got.listeners == (("", 5673), ("127.0.0.1", 5674), ("::1", 5675))
    assert (got.heartbeat, got.frame_max, got.channel_max) == (31, 131_072, 0)
    assert got.vm_memory_high_watermark_absolute == 2_000_000_000
    assert got.memory_limit_bytes(10) == 2_000_000_000
    assert got.disk_free_limit_absolute == 536_870_912
    assert got.consumer_timeout == 60_000
    assert (got.default_queue_type, got.quorum_commands_soft_limit) == ("quorum", 64)
    assert got.quorum_relaxed_checks
    assert got.raft_wal_max_size_bytes == 64_000_000
    assert got.default_pass == "a # b = c"
    assert got.loopback_users == ("ops",)
    assert got.log_level == "warning"


def test_no_user_is_bound_to_the_machine() -> None:
    assert config("loopback_users = none").loopback_users == ()


def test_relative_memory() -> None:
    assert config("vm_memory_high_watermark.relative = 0.25").memory_limit_bytes(1_000) == 250


@pytest.mark.rule("CQ-07")
def test_memory_and_disk_have_limits_that_the_guide_names() -> None:
    total = 1_000_000_000
    settings = settings_from(config("vm_memory_high_watermark.absolute = 1GB"))
    assert (settings.memory_limit_bytes, settings.paging_limit_bytes()) == (total, total // 2)
    text = "vm_memory_high_watermark.absolute = 1GB\nvm_memory_high_watermark_paging_ratio = 0.25"
    assert settings_from(config(text)).paging_limit_bytes() == total // 4
    assert config("disk_free_limit.relative = 1.5").disk_limit_bytes(total) == 1_500_000_000
    both = "disk_free_limit.relative = 1.5\ndisk_free_limit.absolute = 5MB"
    assert config(both).disk_limit_bytes(total) == 5_000_000
    assert config("disk_free_limit.absolute = 0").disk_limit_bytes(total) == 0
    for value in ("0", "-1", "x", "1e3", "0.0"):
        with pytest.raises(ConfigError, match="allowed is a number above 0"):
            config(f"disk_free_limit.relative = {value}")
    guide = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    for words in (
        "vm_memory_high_watermark.relative",
        "vm_memory_high_watermark_paging_ratio",
        "disk_free_limit.absolute",
        "raft.wal_max_size_bytes",
    ):
        assert words in guide


@pytest.mark.rule("CFG-02", "CFG-03", "CFG-04", "RES-04", "TUN-01")
def test_settings_of_quorum_queues_and_of_the_raft_layer() -> None:
    """They have the names, defaults and bounds of RabbitMQ's."""
    got = config("")
    assert got.raft_wal_max_size_bytes == 512 * 2**20
    assert got.raft_segment_max_entries == 4_096
    assert settings_from(got).quorum_size == 3
    got = config(
        """
        quorum_cluster_size = 5
        quorum_commands_soft_limit = 64
        raft.wal_max_size_bytes = 64000000
        raft.segment_max_entries = 32768
        """
    )
    settings = settings_from(got)
    assert (settings.quorum_size, settings.commands_soft_limit) == (5, 64)
    assert settings.log.wal_max_size_bytes == 64_000_000 // 8
    assert got.raft_segment_max_entries == 32_768
    assert config("raft.segment_max_entries = 65535").raft_segment_max_entries == 65_535
    for value in ("0", "65536", "-1"):
        with pytest.raises(ConfigError, match="allowed is"):
            config(f"raft.segment_max_entries = {value}")


def test_options_win_over_the_file() -> None:
    got = config("listeners.tcp.1 = 1", port=7, bind="::1", node_name="a@b", data_dir="x")
    assert got.listeners == (("::1", 7),)
    assert config("", bind="::1").listeners == (("::1", 5672),)
    assert config("", port=7).listeners == (("", 7),)
    assert got.node_name == "a@b"
    assert got.data_dir == str(Path("x").absolute())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n\nheartbeats = 1", ["w.conf, line 3", "heartbeats", "handshake_timeout"]),
        ("heartbeat = -1", ["w.conf, line 1", "heartbeat = -1", "from 0 to 65535"]),
        ("heartbeat = 65536", ["heartbeat", "from 0 to 65535"]),
        ("frame_max = 4096", ["frame_max", "from 8192"]),
        ("max_message_size = 1GiB", ["max_message_size", "536870912"]),
        ("disk_free_limit.absolute = many", ["disk_free_limit.absolute", "512MiB"]),
        ("vm_memory_high_watermark.relative = 1.5", ["at most 1"]),
        ("log.level = loud", ["log.level", "debug, info, warning"]),
        ("listeners.tcp.1 = host", ["listeners.tcp.1", "address:port"]),
        ("listeners.tcp.1 = :5672", ["listeners.tcp.1", "address:port"]),
        ("listeners.tcp.1 = 65536", ["listeners.tcp.1", "address:port"]),
        ("loopback_users.guest = yes", ["loopback_users.guest", "true or false"]),
        ("default_user =", ["default_user", "1 to 255 bytes"]),
        ("default_user = a\udcff", ["default_user", "UTF-8"]),
        ("just words", ["w.conf, line 1", "key = value", "just words"]),
    ],
)
def test_refusals_say_where_and_what_is_allowed(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        config(text)
    for word in words:
        assert word in str(refused.value)


@given(st.text())
def test_any_text_is_taken_or_refused(text: str) -> None:
    try:
        assert isinstance(config(text), ServerConfig)
    except ConfigError as error:
        assert "w.conf, line " in str(error)


@given(st.sampled_from([setting.key for setting in SETTINGS]), st.text(max_size=12))
def test_any_value_is_taken_or_refused(key: str, value: str) -> None:
    try:
        config(f"{key} = '{value}'")
    except ConfigError as error:
        assert "w.conf, line " in str(error)


def test_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "--config", str(tmp_path / "none.conf")]) == 2
    assert "none.conf: No such file" in capsys.readouterr().err
    (tmp_path / "latin.conf").write_bytes(b"# \xe4")
    assert main(["server", "--config", str(tmp_path / "latin.conf")]) == 2
    assert "not UTF-8 at byte 2" in capsys.readouterr().err


def test_order_of_the_sources(tmp_path: Path) -> None:
    path = tmp_path / "warren.conf"
    path.write_text("heartbeat = 10\nlog.level = error\nchannel_max = 9\n")
    words = ["server", "--config", str(path), "--set", "heartbeat=20", "--log-level", "debug"]
    got = server_config(parser().parse_args(words))
    assert (got.heartbeat, got.log_level, got.channel_max) == (20, "debug", 9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "0"], "from 1 to 65535"),
        (["--node-name", "a b"], "name@host"),
        (["--node-name", "a@"], "name@host"),
        (["--log-level", "loud"], "debug"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_words(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["server", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_help_shows_every_option_and_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["server", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for option in ("--data-dir", "--node-name", "--port", "--bind", "--config", "--log-level"):
        assert option in text
    for key in [setting.key for setting in SETTINGS] + [key for key, _ in PATTERNS]:
        assert key in text


def test_help_does_not_load_the_broker() -> None:
    """A mistyped word is answered at once."""
    code = (
        "import sys\n"
        "import warren.__main__\n"
        "assert 'warren.server.main' not in sys.modules\n"
        "assert 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.rule("CMR-05")
@pytest.mark.rule("CMR-06")
@pytest.mark.rule("CMR-07")
@pytest.mark.rule("CMR-08")
@pytest.mark.rule("CMR-09")
def test_reconciliation_of_members() -> None:
    """Five keys, with RabbitMQ's names and defaults."""
    key = "quorum_queue.continuous_membership_reconciliation"
    assert not config("").reconciliation_auto_remove
    assert config(f"{key}.auto_remove = true").reconciliation_auto_remove
    settings = settings_from(config(""))
    assert (settings.reconciles, settings.reconcile_target) == (False, 0)
    assert settings.reconcile_interval_ms == 3_600_000
    assert settings.reconcile_trigger_ms == 10_000
    settings = settings_from(
        config(
            f"""
            {key}.enabled = true
            {key}.target_group_size = 5
            {key}.auto_remove = true
            {key}.interval = 1000
            {key}.trigger_interval = 20
            """
        )
    )
    assert (settings.reconciles, settings.reconcile_target) == (True, 5)
    assert (settings.reconcile_interval_ms, settings.reconcile_trigger_ms) == (1_000, 20)
    for name, value in (
        ("enabled", "yes"),
        ("target_group_size", "-1"),
        ("auto_remove", "1"),
        ("interval", "0"),
        ("trigger_interval", "-1"),
    ):
        with pytest.raises(ConfigError, match=f"{key}.{name} = {value}: allowed is"):
            config(f"{key}.{name} = {value}")


TLS = """
listeners.ssl.default = 5671
listeners.ssl.other = 127.0.0.1:5673
ssl_options.certfile = c.pem
ssl_options.keyfile = k.pem
"""


def test_listeners_for_tls_stand_beside_the_others_or_alone() -> None:
    got = config(TLS)
    check_clients(got)
    assert got.listeners == (("", 5672),)
    assert got.tls_listeners == (("", 5671), ("127.0.0.1", 5673))
    assert got.auth_mechanisms == ("PLAIN", "AMQPLAIN")
    alone = config(TLS + "listeners.tcp = none\nssl_options.versions.1 = tlsv1.3\n")
    check_clients(alone)
    assert (alone.listeners, alone.ssl_versions) == ((), ("tlsv1.3",))
    named = config("auth_mechanisms.2 = EXTERNAL\nauth_mechanisms.1 = PLAIN\n")
    assert settings_from(named).mechanisms == ["PLAIN", "EXTERNAL"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listeners.tcp = none", "leaves no listener"),
        ("listeners.ssl.default = 5671", "needs ssl_options.certfile"),
        ("ssl_options.verify = verify_peer", "needs ssl_options.cacertfile"),
        ("ssl_options.fail_if_no_peer_cert = true", "needs ssl_options.verify = verify_peer"),
    ],
)
def test_settings_of_tls_that_do_not_fit_together_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_clients(config(text))


@pytest.mark.parametrize(
    "text",
    [
        "listeners.tcp = some",
        "listeners.ssl.default = 0",
        "ssl_options.verify = maybe",
        "ssl_options.versions.1 = sslv3",
        "auth_mechanisms.1 = RABBIT-CR-DEMO",
        "ssl_cert_login_from = serial",
    ],
)
def test_wrong_values_of_tls_say_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match="allowed is"):
        config(text)


@pytest.mark.parametrize("name", ["management", "prometheus"])
def test_http_over_tls_takes_the_place_of_http_where_that_is_not_named(name: str) -> None:
    plain = {"management": management_plain, "prometheus": prometheus_plain}[name]
    encrypted = {"management": management_tls, "prometheus": prometheus_tls}[name]
    assert plain(config("")) and encrypted(config("")) is None
    text = f"{name}.ssl.port = 15671\n{name}.ssl.certfile = c\n{name}.ssl.keyfile = k\n"
    alone = config(text + f"{name}.ssl.ip = 127.0.0.1\n{name}.ssl.versions.1 = tlsv1.3\n")
    check_web(alone)
    found = encrypted(alone)
    assert found is not None and not plain(alone)
    assert (found.host, found.port, found.tls.versions) == ("127.0.0.1", 15671, ("tlsv1.3",))
    both = config(text + f"{name}.tcp.port = 8080\n")
    assert plain(both) and encrypted(both) is not None
    for wrong, said in (
        (f"{name}.ssl.port = 15671", f"needs {name}.ssl.certfile"),
        (f"{name}.ssl.verify = verify_peer", f"needs {name}.ssl.cacertfile"),
        (f"{name}.ssl.fail_if_no_peer_cert = true", f"needs {name}.ssl.verify = verify_peer"),
    ):
        with pytest.raises(ConfigError, match=said):
            check_web(config(wrong))


def test_caches_follow_the_memory_limit() -> None:
    small, large = (
        settings_from(config(f"vm_memory_high_watermark.absolute = {size}")).log
        for size in ("256MiB", "4GiB")
    )
    assert (small.cache_bytes, small.read_cache_bytes) == (2 << 20, 8 << 20)
    assert (large.cache_bytes, large.read_cache_bytes) == (8 << 20, 64 << 20)
