"""A client of one node answers one of another without a queue, in a cluster of real processes."""

from __future__ import annotations

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.support import eventually
from tests.cluster.nodes import Cluster
from tests.support.patience import patient

PSEUDO = "amq.rabbitmq.reply-to"
WAIT_S = patient(20.0)


def test_answers_cross_nodes_and_nobody_waits_for_those_whose_client_is_gone(
    cluster: Cluster,
) -> None:
    first, second = cluster.start(2)
    asking, answering = first.connect(), second.connect()
    requester, responder = asking.channel(), answering.channel()
    responder.queue_declare("requests", durable=True)
    answers: list[bytes] = []
    requester.basic_consume(PSEUDO, lambda *told: answers.append(told[3]), auto_ack=True)
    requester.basic_publish("", "requests", b"?", pika.BasicProperties(reply_to=PSEUDO))

    found: list[str] = []

    def asked() -> bool:
        _, properties, body = responder.basic_get("requests", auto_ack=True)
        if body is not None:
            found.append(str(properties.reply_to))
        return bool(found)

    eventually(asked, WAIT_S)
    (address,) = found
    responder.confirm_delivery()
    for number in range(3):
        responder.basic_publish("", address, b"answer %d" % number, mandatory=True)

    def answered() -> bool:
        asking.process_data_events(0.05)
        return len(answers) == 3

    eventually(answered, WAIT_S)
    assert answers == [b"answer 0", b"answer 1", b"answer 2"]
    assert there(answering.channel(), address)

    asking.close()
    eventually(lambda: not there(answering.channel(), address), WAIT_S)
    # As in RabbitMQ: it counts as routed, and what can be no address does not.
    responder.basic_publish("", address, b"late", mandatory=True)
    try:
        responder.basic_publish("", address[:-1], b"nowhere", mandatory=True)
    except pika.exceptions.UnroutableError as error:
        assert [told.method.reply_code for told in error.messages] == [312]
    else:
        raise AssertionError("it did not come back")
    answering.close()


def there(channel: BlockingChannel, address: str) -> bool:
    """Whether a passive declare finds a channel with an address."""
    try:
        channel.queue_declare(address, passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        assert closed.reply_code == 404
        return False
    channel.close()
    return True
