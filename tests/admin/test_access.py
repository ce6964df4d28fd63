"""Users, vhosts, permissions and limits, as operators manage them: answers, refusals, a cluster."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.admin.host import service_of
from tests.admin.test_service import ADMIN, call, refusal
from tests.node.pair import Pair
from warren.admin.service.service import AdminService
from warren.errors import ACCESS_REFUSED, NO_MAJORITY, NOT_FOUND, PRECONDITION_FAILED, CorruptRecord
from warren.limits import DESCRIPTION_BYTES_MAX, PATTERN_BYTES_MAX, TAGS_MAX
from warren.metadata import commands, encoding
from warren.metadata.foreign_checks import foreign_command
from warren.versions import ACCESS

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
HASHED = base64.b64encode(b"salt" + bytes(32)).decode()


@pytest.fixture
def pair() -> Pair:
    return Pair(alone=True)


@pytest.fixture
def service(pair: Pair) -> AdminService:
    return service_of(pair)


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "text"),
    [
        ("add_user", {"name": "guest"}, PRECONDITION_FAILED, 'User "guest" already exists'),
        ("add_user", {"name": ""}, PRECONDITION_FAILED, "user cannot be an empty string"),
        ("add_user", {"name": "x" * 256}, PRECONDITION_FAILED, "at most 255 bytes"),
        (
            "add_user",
            {"name": "u", "password_hash": "!"},
            PRECONDITION_FAILED,
            "Could not Base64 decode provided password hash value",
        ),
        (
            "add_user",
            {"name": "u", "password_hash": HASHED, "hashing_algorithm": "crc"},
            PRECONDITION_FAILED,
            "hashing algorithm 'crc' is unknown",
        ),
        ("delete_user", {"name": "u"}, NOT_FOUND, 'User "u" does not exist'),
        ("change_password", {"name": "u"}, NOT_FOUND, 'User "u" does not exist'),
        ("clear_password", {"name": "u"}, NOT_FOUND, 'User "u" does not exist'),
        ("set_user_tags", {"name": "u", "tags": []}, NOT_FOUND, 'User "u" does not exist'),
        (
            "set_user_tags",
            {"name": "guest", "tags": ["t"] * (TAGS_MAX + 1)},
            PRECONDITION_FAILED,
            "A user can have at most 32 tags (received 33)",
        ),
        ("set_user_tags", {"name": "guest", "tags": [""]}, PRECONDITION_FAILED, "tag cannot be"),
        (
            "set_user_tags",
            {"name": "guest", "tags": ["t" * 256]},
            PRECONDITION_FAILED,
            "the name of a tag has at most 255 bytes",
        ),
        (
            "authenticate_user",
            {"name": "guest", "password": "wrong"},
            ACCESS_REFUSED,
            "user 'guest' - invalid credentials",
        ),
        (
            "authenticate_user",
            {"name": "u", "password": ""},
            ACCESS_REFUSED,
            "user 'u' - invalid credentials",
        ),
        ("add_vhost", {"name": ""}, PRECONDITION_FAILED, "vhost cannot be an empty string"),
        (
            "add_vhost",
            {"name": "v", "default_queue_type": "fast"},
            PRECONDITION_FAILED,
            "Default queue type must be one of: ",
        ),
        (
            "add_vhost",
            {"name": "v", "default_queue_type": "stream"},
            PRECONDITION_FAILED,
            "'stream' is not supported yet",
        ),
        (
            "add_vhost",
            {"name": "v", "description": "x" * (DESCRIPTION_BYTES_MAX + 1)},
            PRECONDITION_FAILED,
            "'description' of a vhost cannot be that",
        ),
        ("delete_vhost", {"name": "v"}, NOT_FOUND, "Virtual host 'v' does not exist"),
        ("update_vhost_metadata", {"name": "v"}, NOT_FOUND, "Virtual host 'v' does not exist"),
        (
            "set_permissions",
            {"vhost": "/", "user": "u", **ALL},
            NOT_FOUND,
            "User u does not exist",
        ),
        (
            "set_permissions",
            {"vhost": "v", "user": "guest", **ALL},
            NOT_FOUND,
            "Virtual host v does not exist",
        ),
        (
            "set_permissions",
            {"vhost": "/", "user": "guest", **ALL, "write": "("},
            PRECONDITION_FAILED,
            "regular expression '(' is invalid: ",
        ),
        (
            "set_permissions",
            {"vhost": "/", "user": "guest", **ALL, "read": "x" * (PATTERN_BYTES_MAX + 1)},
            PRECONDITION_FAILED,
            "must not exceed 1024 bytes",
        ),
        ("clear_permissions", {"vhost": "/", "user": "u"}, NOT_FOUND, "User u does not exist"),
        (
            "set_topic_permissions",
            {"vhost": "/", "user": "guest", "exchange": "none", "write": "", "read": ""},
            NOT_FOUND,
            "Exchange none does not exist",
        ),
        (
            "set_topic_permissions",
            {"vhost": "/", "user": "guest", "exchange": "amq.topic", "write": "*", "read": ""},
            PRECONDITION_FAILED,
            "regular expression '*' is invalid",
        ),
        (
            "clear_topic_permissions",
            {"vhost": "v", "user": "guest"},
            NOT_FOUND,
            "Virtual host v does not exist",
        ),
        ("list_permissions", {"vhost": "v"}, NOT_FOUND, "Virtual host 'v' does not exist"),
        ("list_user_permissions", {"user": "u"}, NOT_FOUND, 'User "u" does not exist'),
        ("list_topic_permissions", {"vhost": "v"}, NOT_FOUND, "Virtual host 'v' does not"),
        ("list_user_topic_permissions", {"user": "u"}, NOT_FOUND, 'User "u" does not exist'),
        ("list_user_limits", {"user": "u"}, NOT_FOUND, 'User "u" does not exist'),
        ("list_vhost_limits", {"vhost": "v"}, NOT_FOUND, "Virtual host 'v' does not exist"),
        (
            "set_user_limits",
            {"user": "guest", "definition": "{"},
            PRECONDITION_FAILED,
            "Could not parse JSON document",
        ),
        (
            "set_user_limits",
            {"user": "guest", "definition": "[]"},
            PRECONDITION_FAILED,
            "user-limits not a list []",
        ),
        (
            "set_user_limits",
            {"user": "guest", "definition": '{"max-queues": 5}'},
            PRECONDITION_FAILED,
            'Unrecognised terms [{<<"max-queues">>,5}] in user-limits',
        ),
        (
            "set_user_limits",
            {"user": "guest", "definition": '{"max-channels": true}'},
            PRECONDITION_FAILED,
            "max-channels should be a number, actually was true",
        ),
        (
            "set_user_limits",
            {"user": "guest", "definition": '{"max-channels": 10000000000000000000}'},
            PRECONDITION_FAILED,
            "max-channels should be a number",
        ),
        (
            "set_vhost_limits",
            {"vhost": "/", "definition": '{"max-channels": 5}'},
            PRECONDITION_FAILED,
            "in limits",
        ),
        (
            "clear_user_limits",
            {"user": "guest", "limit": "max-queues"},
            PRECONDITION_FAILED,
            "limit 'max-queues' is unknown",
        ),
        ("clear_vhost_limits", {"vhost": "v"}, NOT_FOUND, "Virtual host 'v' does not exist"),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(
    pair: Pair,
    service: AdminService,
    name: str,
    arguments: dict[str, Any],
    kind: str,
    text: str,
) -> None:
    def rows() -> list[Any]:
        return [call(pair, service, ADMIN, each) for each in ("list_users", "list_vhosts")]

    before = rows()
    refused = refusal(pair, service, ADMIN, name, arguments)
    assert (refused.kind, text in refused.text) == (kind, True), refused.text
    assert rows() == before


def test_a_hash_that_another_broker_made_is_taken_as_it_is(
    pair: Pair, service: AdminService
) -> None:
    # The example of RabbitMQ's documentation: password test12.
    documented = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    words = {"name": "u", "password_hash": documented}
    call(pair, service, ADMIN, "add_user", words)
    call(pair, service, ADMIN, "authenticate_user", {"name": "u", "password": "test12"})
    words["hashing_algorithm"] = "rabbit_password_hashing_sha512"
    call(pair, service, ADMIN, "change_password", words)
    refusal(pair, service, ADMIN, "authenticate_user", {"name": "u", "password": "test12"})


def test_passwords_have_salts_and_are_in_no_answer(pair: Pair, service: AdminService) -> None:
    for name in ("a", "b"):
        call(pair, service, ADMIN, "add_user", {"name": name, "password": "the same"})
    users = service.machine.users
    assert users["a"].password_hash != users["b"].password_hash
    assert b"the same" not in service.machine.snapshot()
    assert "the same" not in repr(call(pair, service, ADMIN, "list_users"))


def test_limits_are_added_taken_away_and_replaced(pair: Pair, service: AdminService) -> None:
    def change(name: str, **words: str) -> list[Any]:
        call(pair, service, ADMIN, name, words)
        what = "user" if "user" in words else "vhost"
        return [row.limits for row in call(pair, service, ADMIN, f"list_{what}_limits")]

    first = change("set_user_limits", user="guest", definition='{"max-connections": 5}')
    assert first == [{"max-connections": 5}]
    both = change("set_user_limits", user="guest", definition='{"max-channels": -1}')
    assert both == [{"max-connections": 5, "max-channels": -1}]
    assert change("clear_user_limits", user="guest", limit="max-connections") == [
        {"max-channels": -1}
    ]
    assert change("clear_user_limits", user="guest", limit="all") == []
    assert change("set_vhost_limits", vhost="/", definition='{"max-queues": 5}') == [
        {"max-queues": 5}
    ]
    assert change("set_vhost_limits", vhost="/", definition='{"max-connections": 1}') == [
        {"max-connections": 1}
    ]
    assert change("clear_vhost_limits", vhost="/") == []


def test_a_protected_vhost_is_not_deleted(pair: Pair, service: AdminService) -> None:
    call(pair, service, ADMIN, "add_vhost", {"name": "v"})
    call(pair, service, ADMIN, "add_vhost", {"name": "v", "description": "once more"})
    (row,) = [row for row in call(pair, service, ADMIN, "list_vhosts") if row.name == "v"]
    assert row.description == ""
    protect = {"name": "v", "protected_from_deletion": True}
    call(pair, service, ADMIN, "update_vhost_metadata", protect)
    refused = refusal(pair, service, ADMIN, "delete_vhost", {"name": "v"})
    assert refused.text.startswith("Cannot delete this virtual host: it is protected")
    call(
        pair, service, ADMIN, "update_vhost_metadata", {**protect, "protected_from_deletion": False}
    )
    call(pair, service, ADMIN, "delete_vhost", {"name": "v"})
    assert "v" not in service.machine.vhosts


def test_a_node_that_lags_undoes_nothing() -> None:
    """What was changed on one node is known to the next one that is asked, before it changes."""
    pair = Pair()
    here, there = service_of(pair, "a"), service_of(pair, "b")
    call(pair, here, ADMIN, "add_user", {"name": "u", "password": "old"})
    call(pair, there, ADMIN, "change_password", {"name": "u", "password": "new"})
    call(pair, here, ADMIN, "set_user_tags", {"name": "u", "tags": ["t"]})
    call(pair, there, ADMIN, "authenticate_user", {"name": "u", "password": "new"})
    refused = refusal(pair, there, ADMIN, "add_user", {"name": "u", "password": "mine"})
    assert refused.text == 'User "u" already exists'
    pair.b.kill()
    pair.until(lambda: here.members.tables_leader() == "")
    refused = refusal(pair, here, ADMIN, "delete_user", {"name": "u"})
    assert refused.kind == NO_MAJORITY


def test_an_older_node_keeps_back_what_it_does_not_know() -> None:
    def older(settings: Any) -> None:
        settings.cluster_version_max = ACCESS - 1

    pair = Pair(configure=older)
    service = service_of(pair)
    call(pair, service, ADMIN, "add_user", {"name": "u", "password": "u"})
    call(pair, service, ADMIN, "add_vhost", {"name": "v"})
    call(pair, service, ADMIN, "set_permissions", {"vhost": "v", "user": "u", **ALL})
    for name, words in (
        ("set_user_tags", {"name": "u", "tags": ["t"]}),
        ("change_password", {"name": "u", "password": "x"}),
        ("add_vhost", {"name": "w", "description": "d"}),
        ("set_vhost_limits", {"vhost": "v", "definition": "{}"}),
    ):
        refused = refusal(pair, service, ADMIN, name, words)
        assert f"needs cluster version {ACCESS}" in refused.text and "on a, b" in refused.text
    call(pair, service, ADMIN, "delete_user", {"name": "u"})
    call(pair, service, ADMIN, "delete_vhost", {"name": "v"})


@pytest.mark.parametrize(
    "command",
    [
        commands.SetPermissions("u", "/", "(", ".*", ".*"),
        commands.SetTopicPermissions("u", "/", "e", "(", ".*"),
        commands.SetUserLimits("u", {"max-queues": 1}, []),
        commands.SetVhostLimits("v", {"max-channels": 1}),
        commands.SetVhost("v", True, {"tags": [1]}),
        commands.SetVhost("v", True, {"colour": "red"}),
        commands.SetVhost("v", False, {"default_queue_type": "fast"}),
        commands.SetUser("x" * 256, b"", "s", [], False),
        commands.DeclareVhost("x" * 256),
    ],
)
def test_another_node_has_nothing_logged_that_would_be_refused_here(
    command: commands.Command,
) -> None:
    with pytest.raises(CorruptRecord):
        foreign_command(encoding.encode(command))
