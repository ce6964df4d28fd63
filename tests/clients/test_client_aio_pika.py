"""aio-pika against the broker: the asyncio client most applications use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractConnection

from tests.clients.fixtures import Names
from tests.clients.support import BODY_SIZES, UNICODE, WAIT_S, body_of

Work = Callable[[AbstractConnection], Awaitable[None]]


@pytest.fixture
def run(amqp_address: tuple[str, int]) -> Callable[[Work], None]:
    """Runs a coroutine function with a connection, within a bound."""

    def run(work: Work) -> None:
        async def main() -> None:
            host, port = amqp_address
            connection = await aio_pika.connect(host=host, port=port, login="guest")
            async with connection:
                await work(connection)

        asyncio.run(asyncio.wait_for(main(), 4 * WAIT_S))

    return run


@pytest.mark.rule("QQ-03")
def test_publish_get_ack(run: Callable[[Work], None], queue: str) -> None:
    async def work(connection: AbstractConnection) -> None:
        channel = await connection.channel(publisher_confirms=True)
        for size in BODY_SIZES:
            message = aio_pika.Message(
                body_of(size), delivery_mode=aio_pika.DeliveryMode.PERSISTENT, headers={"n": size}
            )
            await channel.default_exchange.publish(message, routing_key=queue)
        source = await channel.get_queue(queue)
        for size in BODY_SIZES:
            got = await source.get(timeout=WAIT_S)
            assert got is not None
            assert (got.body, got.headers) == (body_of(size), {"n": size})
            await got.ack()
        assert await source.get(fail=False) is None

    run(work)


def test_consume_requeue_reject(run: Callable[[Work], None], queue: str) -> None:
    async def work(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=10)
        for n in range(30):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % n), routing_key=queue)
        source = await channel.get_queue(queue)
        seen: dict[bytes, int] = {}
        async with source.iterator(timeout=WAIT_S) as messages:
            async for message in messages:
                seen[message.body] = seen.get(message.body, 0) + 1
                if message.body.endswith(b"3") and not message.redelivered:
                    await message.nack(requeue=True)
                elif message.body.endswith(b"4"):
                    await message.reject(requeue=False)
                else:
                    await message.ack()
                if sum(seen.values()) == 33:
                    break
        assert seen == {b"%d" % n: 2 if n % 10 == 3 else 1 for n in range(30)}

    run(work)


def test_returned_message(run: Callable[[Work], None]) -> None:
    async def work(connection: AbstractConnection) -> None:
        channel = await connection.channel(on_return_raises=True)
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key="nobody")

    run(work)


def test_many_publishes_at_once(run: Callable[[Work], None], queue: str) -> None:
    async def work(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        await asyncio.gather(
            *(
                channel.default_exchange.publish(aio_pika.Message(b"%d" % n), routing_key=queue)
                for n in range(500)
            )
        )
        source = await channel.declare_queue(queue, passive=True)
        assert source.declaration_result.message_count == 500

    run(work)


def test_unicode(run: Callable[[Work], None], names: Names) -> None:
    async def work(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        # The client itself refuses names of queues and exchanges outside ASCII.
        exchange = await channel.declare_exchange(names.exchange(), "topic")
        queue = await channel.declare_queue(names.queue(), durable=True)
        await queue.bind(exchange, UNICODE)
        await exchange.publish(aio_pika.Message(b"x", message_id=UNICODE), routing_key=UNICODE)
        got = await queue.get(timeout=WAIT_S)
        assert got is not None and got.message_id == UNICODE
        await got.ack()

    run(work)


def test_transaction(run: Callable[[Work], None], queue: str) -> None:
    async def work(connection: AbstractConnection) -> None:
        channel = await connection.channel(publisher_confirms=False)
        async with channel.transaction():
            for n in range(3):
                await channel.default_exchange.publish(
                    aio_pika.Message(b"%d" % n), routing_key=queue
                )
        source = await channel.get_queue(queue)
        bodies = []
        for _ in range(3):
            got = await source.get(no_ack=True, timeout=WAIT_S)
            assert got is not None
            bodies.append(got.body)
        assert bodies == [b"0", b"1", b"2"]

    run(work)
