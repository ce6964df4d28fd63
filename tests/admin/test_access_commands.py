"""`warren users`, `vhosts`, `permissions` and `limits` against a broker, and what clients see."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.admin.test_commands import said, warren
from tests.clients.support import eventually
from tests.support.broker import HOST, Broker, free_port


@pytest.fixture
def asked(make_broker: Callable[..., Broker]) -> Broker:
    """A broker with a cluster listener of its own, so that commands can ask it."""
    broker = make_broker("--cluster-port", str(free_port()))
    return broker.start()


def connect(broker: Broker, user: str, password: str, vhost: str = "/") -> Any:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(HOST, broker.port, vhost, credentials, socket_timeout=30)
    )


def test_users_vhosts_permissions_and_limits_from_the_first_to_the_last(asked: Broker) -> None:
    node = ["--data-dir", str(asked.data_dir)]

    def done(*words: str, given: bytes = b"") -> str:
        return said(warren(*words, *node, given=given))

    def refused(*words: str) -> str:
        return said(warren(*words, *node), 1)

    def listed(*words: str) -> Any:
        return json.loads(done(*words, "--json"))

    with pytest.raises(ProbableAuthenticationError):
        connect(asked, "app", "secret")
    done("users", "add_user", "app", given=b"secret\n")
    assert 'User "app" already exists' in refused("users", "add_user", "app", "other")
    done("users", "authenticate_user", "app", "secret")
    assert "invalid credentials" in refused("users", "authenticate_user", "app", "wrong")
    done("users", "set_user_tags", "app", "monitoring", "policymaker")
    assert listed("users", "list_users") == [
        {"user": "app", "tags": ["monitoring", "policymaker"]},
        {"user": "guest", "tags": ["administrator"]},
    ]
    assert "[monitoring, policymaker]" in done("users", "list_users")

    done("vhosts", "add_vhost", "v", "--tags", "a,b", "--default-queue-type", "quorum")
    done("vhosts", "update_vhost_metadata", "v", "--description", "for tests")
    (row,) = [row for row in listed("vhosts", "list_vhosts") if row["name"] == "v"]
    assert row == {
        "name": "v",
        "description": "for tests",
        "tags": ["a", "b"],
        "default_queue_type": "quorum",
        "protected_from_deletion": False,
        "tracing": False,
    }
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)):
        connect(asked, "app", "secret", "v")

    done("permissions", "set_permissions", "-p", "v", "app", "^app-", ".*", ".*")
    assert listed("permissions", "list_permissions", "-p", "v") == [
        {"user": "app", "configure": "^app-", "write": ".*", "read": ".*"}
    ]
    assert listed("permissions", "list_user_permissions", "app")[0]["vhost"] == "v"
    connection = connect(asked, "app", "secret", "v")
    channel = connection.channel()
    channel.queue_declare("app-1", durable=True)
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare("other", durable=True)
    assert closed.value.reply_code == 403
    assert closed.value.reply_text == (
        "ACCESS_REFUSED - configure access to queue 'other' in vhost 'v' refused for user 'app'"
    )
    done("permissions", "set_topic_permissions", "-p", "v", "app", "amq.topic", "^a", ".*")
    assert len(listed("permissions", "list_topic_permissions", "-p", "v")) == 1
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "a.b", b"")
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.basic_publish("amq.topic", "b.a", b"")
    assert closed.value.reply_text == (
        "ACCESS_REFUSED - write access to topic 'b.a' in exchange 'amq.topic' in vhost 'v' "
        "refused for user 'app'"
    )
    done("permissions", "clear_topic_permissions", "-p", "v", "app", "amq.topic")
    assert listed("permissions", "list_user_topic_permissions", "app") == []

    done("limits", "set_vhost_limits", "-p", "v", '{"max-queues": 1}')
    assert listed("limits", "list_vhost_limits", "--global") == [
        {"vhost": "v", "limits": {"max-queues": 1}}
    ]
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare("app-2", durable=True)
    assert closed.value.reply_code == 406
    done("limits", "clear_vhost_limits", "-p", "v")
    done("limits", "set_user_limits", "app", '{"max-channels": 5}')
    assert '{"max-channels": 5}' in done("limits", "list_user_limits", "--user", "app")
    done("limits", "clear_user_limits", "app", "all")
    assert listed("limits", "list_user_limits", "--global") == []

    done("vhosts", "delete_vhost", "v")
    eventually(lambda: ended(connection))
    assert "Virtual host 'v' does not exist" in refused("vhosts", "delete_vhost", "v")
    done("permissions", "set_permissions", "app", ".*", ".*", ".*")
    connection = connect(asked, "app", "secret")
    done("users", "change_password", "app", "other")
    with pytest.raises(ProbableAuthenticationError):
        connect(asked, "app", "secret")
    connect(asked, "app", "other").close()
    connection.process_data_events()
    done("users", "delete_user", "app")
    eventually(lambda: ended(connection))
    with pytest.raises(ProbableAuthenticationError):
        connect(asked, "app", "other")


def ended(connection: Any) -> bool:
    """Whether the broker has closed a connection."""
    try:
        connection.process_data_events()
    except AMQPConnectionError as error:
        assert isinstance(error, ConnectionClosedByBroker)
        assert error.reply_code == 320 and error.reply_text.endswith("is deleted")
        return True
    return False


def test_words_that_are_no_utf8_are_refused_and_the_node_goes_on(asked: Broker) -> None:
    node = ["--data-dir", str(asked.data_dir)]
    refused = said(warren("vhosts", "add_vhost", "a\udcff", *node), 2)
    assert "'a\\udcff' is not valid UTF-8" in refused
    said(warren("vhosts", "add_vhost", "good", *node))
    assert {
        row["name"] for row in json.loads(said(warren("vhosts", "list_vhosts", "--json", *node)))
    } == {
        "/",
        "good",
    }
