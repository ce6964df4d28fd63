"""Syntax of RabbitMQ's files: quotes, files that name others, and `$(NAME)`.

What RabbitMQ 4.3.6 makes of each text was measured with its own parser.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker import Broker, free_port
from warren.admin.cli.main import parser, server_config
from warren.client import AmqpError, connect
from warren.config.building import build
from warren.config.config import ServerConfig
from warren.config.reading import parse_lines, read_file
from warren.errors import ConfigError


def config(text: str, **environment: str) -> ServerConfig:
    return build(parse_lines(text, "w.conf"), environment=environment)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a#b", "a"),
        ("a #b", "a"),
        ("'a#b' # c", "a#b"),
        ("''' it's '''", " it's "),
        ("'''a\nb'''", "a\nb"),
        ("'a\nb'", "a\nb"),
        ("a'b", "a'b"),
        ("'a", "'a"),
        ('"a"', '"a"'),
        ("${A}", "${A}"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("a = b", "a = b"),
        ("ab:", "ab:"),
    ],
)
def test_values_are_what_they_are_to_rabbitmq(text: str, value: str) -> None:
    assert (
        config(f"heartbeat = 5\ndefault_user = {text}\r\nchannel_max = 7\n").default_user == value
    )


@pytest.mark.parametrize(
    "line",
    ["a 5", "[a]", "; a", "a = 'b' c", "a = ''''b'", "a = 'b'''", "include 'b'", "a = b \\\n c"],
)
def test_lines_that_are_none_are_refused_with_their_number(line: str) -> None:
    with pytest.raises(ConfigError, match=r"^w\.conf, line (3|4): expected `key = value`"):
        config(f"# one\n\n{line}\n")


def test_what_may_be_a_secret_is_in_no_message() -> None:
    for line in ("default_pass = 'hush' x", f"default_pass = '{'hush' * 99}'"):
        with pytest.raises(ConfigError) as wrong:
            config(line)
        assert "default_pass = ..." in str(wrong.value) and "hush" not in str(wrong.value)


def test_names_stand_for_other_keys_or_for_the_environment() -> None:
    text = """
    default_user = $(APP_USER)
    default_pass = a$( APP_PASS )b$(heartbeat)
    default_vhost = '$(default_user)'
    heartbeat = $(BEAT)
    """
    got = config(text, APP_USER="app", APP_PASS="$(not a name)", BEAT="7", heartbeat="9")
    assert (got.default_user, got.default_vhost, got.heartbeat) == ("app", "app", 7)
    assert got.default_pass == "a$(not a name)b7", "what the environment has is taken as it is"


def test_a_name_that_nothing_has_ends_the_start_with_all_of_them_said() -> None:
    with pytest.raises(ConfigError) as wrong:
        config("default_user = $(APP_USER)\nheartbeat = x\ndefault_pass = $(APP_PASS)\n")
    said = str(wrong.value).split("\n")
    assert len(said) == 3
    assert any("line 1: default_user has $(APP_USER), and neither" in each for each in said)
    assert any("line 2: heartbeat = x: allowed is" in each for each in said)
    with pytest.raises(ConfigError, match="default_user stands for itself"):
        config("default_user = $(default_vhost)\ndefault_vhost = $(default_user)\n")


@pytest.mark.parametrize(
    "key", ["default_pass", "ssl_options.password", "management.ssl.password", "cluster.secret"]
)
def test_a_value_that_rabbitmq_would_decrypt_is_no_value(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{key} is encrypted for RabbitMQ"):
        config(f"{key} = encrypted:c2VjcmV0")
    path = tmp_path / "advanced.config"
    path.write_text('[{rabbit, [{default_pass, {encrypted, <<"c2VjcmV0">>}}]}].')
    with pytest.raises(ConfigError, match="default_pass is encrypted for RabbitMQ"):
        build(read_file(str(path)))


def test_files_name_others(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "2.conf").write_text("channel_max = 2\n")
    (tmp_path / "conf.d" / "1.conf").write_text("channel_max = 1\ndefault_vhost = one\n")
    main = tmp_path / "rabbitmq.conf"
    main.write_text("channel_max = 9\ninclude conf.d/*.conf # all\ninclude none.conf\n")
    got = build(read_file(str(main)))
    assert (got.channel_max, got.default_vhost) == (2, "one")
    main.write_text("include rabbitmq.conf\n")
    with pytest.raises(ConfigError, match="include each other without an end"):
        read_file(str(main))


def test_a_backslash_has_a_dot_be_part_of_a_name() -> None:
    got = config("loopback_users.a\\.b = true\nloopback_users.guest = false\n")
    assert got.loopback_users == ("a.b",)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1k", 1_000), ("1K", 1_000), ("1ki", 1_024), ("2M", 2_000_000), ("2MiB", 2 << 20)]
    + [("3G", 3 * 10**9), ("3Gi", 3 << 30), ("4TB", 4 * 10**12), ("5PB", 5 * 10**15)],
)
def test_units_are_rabbitmqs(text: str, size: int) -> None:
    assert config(f"disk_free_limit.absolute = {text}").disk_free_limit_absolute == size


ADVANCED = """
%% all of it
[{rabbit, [
   {tcp_listeners, [5680, {"127.0.0.1", 5681}, {"::1", 5682}]},
   {ssl_listeners, []},
   {auth_mechanisms, ['PLAIN', 'AMQPLAIN', 'ANONYMOUS']},
   {auth_backends, [rabbit_auth_backend_internal]},
   {loopback_users, [<<"ops">>]},
   {cluster_nodes, {['n1@a', 'n2@b'], disc}},
   {default_user, <<"b", "oss">>}, {default_pass, <<104,117,115,104>>},
   {default_vhost, <<"\\x{e9}"/utf8>>},
   {default_user_tags, [administrator]},
   {default_permissions, [<<".*">>, <<".*">>, <<".*">>]},
   {consumer_timeout, undefined}, {heartbeat, 16#1E}, {vm_memory_high_watermark, 0.4},
   {disk_free_limit, {mem_relative, 1.5e0}},
   {ssl_options, [{versions, ['tlsv1.3']}, {verify, verify_none}, {depth, 2}]},
   {deprecated_features, [{permit_transient_nonexcl_queues, true}]},
   {log, [{file, [{level, debug}]}]},
   {of_nobody, #{a => [1, {b, "c"}], 'd e' => <<"f">>}}
 ]},
 {rabbitmq_management, [{listener, [{port, 15680}, {ip, "127.0.0.1"}, {ssl, false}]}]},
 {rabbitmq_shovel, [{shovels, [{copy, [{queue, <<"q">>}, {delay, 2.5}]}]}]},
 {kernel, [{inet_dist_listen_min, 1}]}
].
"""


def test_terms_of_any_shape_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "advanced.config"
    path.write_text(ADVANCED.replace('<<"b", "oss">>', '"b" "oss"'))
    got = build(read_file(str(path)))
    assert got.listeners == (("", 5680), ("127.0.0.1", 5681), ("::1", 5682))
    assert (got.tls_listeners, got.ssl_versions) == ((), ("tlsv1.3",))
    assert (got.auth_mechanisms, got.loopback_users) == (("PLAIN", "AMQPLAIN"), ("ops",))
    assert [node[0] for node in got.cluster_nodes] == ["n1@a", "n2@b"]
    assert (got.default_user, got.default_pass, got.heartbeat) == ("boss", "hush", 30)
    assert (got.management_port, got.management_host) == (15_680, "127.0.0.1")
    assert got.memory_limit_bytes(1_000) == 400 and got.disk_limit_bytes(1_000) == 1_500
    assert got.consumer_timeout > 10**12
    said = " ".join(got.warnings)
    for key in (
        *("auth_mechanisms.3", "ssl_options.depth", "deprecated_features", "log.file.level"),
        *("of_nobody does nothing: Warren knows no such key", "shovel.shovels", "kernel."),
    ):
        assert key in said
    text = got.ignored_text()
    assert text.startswith("7 keys of the configuration set nothing: ") and "\n" not in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[{rabbit, [{auth_backends, [rabbit_auth_backend_ldap]}]}].", "allowed is internal"),
        ("[{rabbit, [{heartbeat, [1]}]}].", "heartbeat = [1]: allowed is a whole number"),
        ("[{rabbitmq_management, [{listener, [{ssl, true}]}]}].", "older way to say it"),
    ],
)
def test_terms_that_must_not_be_ignored_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "advanced.config"
    path.write_text(text)
    with pytest.raises(ConfigError) as wrong:
        build(read_file(str(path)))
    assert said in str(wrong.value)


def options(*words: str) -> ServerConfig:
    return server_config(parser(serves=True).parse_args(["server", *words]))


def test_options_change_only_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "w.conf"
    path.write_text(
        "listeners.tcp.local = 127.0.0.1:5672\nlisteners.ssl.default = 5671\n"
        "ssl_options.certfile = c\nssl_options.keyfile = k\n"
    )
    given = ("--config", str(path))
    assert options(*given, "--port", "5999").listeners == (("127.0.0.1", 5_999),)
    moved = options(*given, "--bind", "::1")
    assert (moved.listeners, moved.tls_listeners) == ((("::1", 5_672),), (("::1", 5_671),))
    path.write_text("listeners.tcp.1 = 5672\nlisteners.tcp.2 = 127.0.0.1:5673\n")
    assert options(*given, "--port", "5999").listeners == (("", 5_999),)
    assert options(*given, "--bind", "::1").listeners == (("::1", 5_672), ("::1", 5_673))
    path.write_text("listeners.tcp = none\nlisteners.ssl.1 = 5671\n")
    with pytest.raises(ConfigError, match="no listener that --port could be for"):
        options(*given, "--port", "5999")


@pytest.mark.process
def test_a_file_names_the_administrator_by_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text("default_user = $(APP_USER)\ndefault_pass = $(APP_PASS)\n")
    broker = Broker(free_port(), tmp_path / "b", options=["--config", str(path)])
    assert broker.launch().wait(30) == 2
    assert "neither the environment nor the configuration has APP_PASS" in broker.log_text()
    broker.stop()
    broker.environment = {"APP_USER": "app", "APP_PASS": "hush"}
    broker.start()
    try:
        where = broker.url.replace("guest:guest", "app:hush")
        with connect(where) as connection:
            connection.channel()
        with pytest.raises(AmqpError):
            connect(broker.url.replace("guest:guest", "$(APP_USER):$(APP_PASS)"))
    finally:
        broker.stop()


def test_a_check_says_all_that_is_wrong_and_what_is_not_honoured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from warren.__main__ import main

    path = tmp_path / "w.conf"
    folder = tmp_path / "none"
    words = ["server", "--check", "--config", str(path), "--data-dir", str(folder)]
    path.write_text("heartbeat = 5\nmqtt.vhost = /\nstream.frame_max = 1\n")
    assert main(words) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 3 and told[-1] == "the configuration is right; 2 of its keys set nothing"
    definitions = tmp_path / "d.json"
    definitions.write_text("[]")
    path.write_text(
        "heartbeat = x\nnonesuch = 1\nmqtt.vhost = /\nssl_options.verify = verify_peer\n"
        "management.ssl.port = 15671\nmanagement.ssl.certfile = c.pem\n"
        f"management.ssl.keyfile = k.pem\nload_definitions = {definitions}\n"
    )
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert "mqtt.vhost does nothing" in out and out.endswith("the configuration is wrong\n")
    for said in (
        *("heartbeat = x: allowed is", "unknown key nonesuch", "needs ssl_options.cacertfile"),
        *("certificate c.pem with key k.pem", "d.json: an object is expected"),
    ):
        assert sum(said in line for line in err.splitlines()) == 1, err
    assert not folder.exists(), "a check leaves no trace"


def test_files_of_public_reports_are_taken(tmp_path: Path) -> None:
    for name, text in {
        "a.conf": "consumer_timeout = 31622400000\n",
        "b.conf": "management.listener.port = 22315\nmanagement.listener.ssl = false\n",
        "c.conf": "handshake_timeout = infinity\nauth_mechanisms.1 = PLAIN\n",
        "d.conf": "log.console.level = notice\ndefault_queue_type = rabbit_quorum_queue\n",
        "e.conf": "vm_memory_high_watermark.relative = 0.0\nlisteners.ssl = none\n",
        "a.config": "[{rabbit, [{deprecated_features, [{permit_a, true}]}]}].",
        "b.config": "[].",
    }.items():
        (tmp_path / name).write_text(text)
        options("--config", str(tmp_path / name))
