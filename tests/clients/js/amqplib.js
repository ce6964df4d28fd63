// One check of amqplib against a broker: node amqplib.js HOST PORT CHECK QUEUE KIND
//
// The Python test declares nothing and deletes the queue afterwards. A check that fails throws;
// the exit code is then 1 and the reason is on standard error.

"use strict";

const assert = require("node:assert");
const amqp = require("amqplib");

const SIZES = [0, 1, 4088, 4089, 131064, 131065, 1 << 20, 16 << 20];
const UNICODE = "ü".repeat(30) + "日本".repeat(20) + "🐇".repeat(18) + "abc";

function bodyOf(size) {
  const body = Buffer.alloc(size);
  for (let at = 0; at < size; at += 4) {
    body.write(String(at % 9973).padEnd(4), at, Math.min(4, size - at), "latin1");
  }
  return body;
}

async function received(channel, queue, count, options, handle) {
  const seen = [];
  await new Promise((resolve, reject) => {
    channel.on("error", reject);
    channel.consume(queue, (message) => {
      seen.push(message);
      if (handle) handle(message);
      if (seen.length === count) resolve();
    }, options).catch(reject);
  });
  return seen;
}

const checks = {
  async bodies(connection, queue) {
    const channel = await connection.createConfirmChannel();
    for (const size of SIZES) {
      channel.sendToQueue(queue, bodyOf(size), { persistent: true, headers: { size } });
    }
    await channel.waitForConfirms();
    for (const size of SIZES) {
      const message = await channel.get(queue, { noAck: false });
      assert(message, `no message of ${size}`);
      assert.strictEqual(message.properties.headers.size, size);
      assert(message.content.equals(bodyOf(size)), `body of ${size} differs`);
      channel.ack(message);
    }
    assert.strictEqual(await channel.get(queue), false);
  },

  async consume(connection, queue) {
    const channel = await connection.createConfirmChannel();
    for (let n = 0; n < 20; n++) channel.sendToQueue(queue, Buffer.from(String(n)));
    await channel.waitForConfirms();
    await channel.prefetch(5);
    const seen = await received(channel, queue, 21, {}, (message) => {
      const body = message.content.toString();
      if (body === "7" && !message.fields.redelivered) channel.nack(message, false, true);
      else if (body === "8") channel.reject(message, false);
      else channel.ack(message);
    });
    const bodies = seen.map((message) => Number(message.content)).sort((a, b) => a - b);
    assert.deepStrictEqual(bodies, [...Array(20).keys(), 7].sort((a, b) => a - b));
    assert.deepStrictEqual(
      seen.filter((m) => m.fields.redelivered).map((m) => m.content.toString()), ["7"]);
  },

  async returns(connection) {
    const channel = await connection.createConfirmChannel();
    const back = new Promise((resolve) => channel.on("return", resolve));
    channel.publish("", "nobody", Buffer.from("x"), { mandatory: true, messageId: "m" });
    await channel.waitForConfirms();
    const message = await back;
    assert.strictEqual(message.fields.replyCode, 312);
    assert.strictEqual(message.fields.replyText, "NO_ROUTE");
    assert.strictEqual(message.properties.messageId, "m");
  },

  async headers(connection, queue) {
    const channel = await connection.createConfirmChannel();
    const headers = {
      byte: -1, int: 2 ** 20, long: 2 ** 40, negative: -(2 ** 40), double: 0.1, yes: true,
      no: false, string: UNICODE, nothing: null, buffer: Buffer.from([0, 255]),
      array: [1, "two", [3]], object: { deep: { deeper: 1 } },
      timestamp: { "!": "timestamp", value: 1700000000 },
      float: { "!": "float", value: 0.5 }, short: { "!": "int16", value: -5 },
      decimal: { "!": "decimal", value: { digits: 314, places: 2 } },
    };
    channel.sendToQueue(queue, Buffer.from("x"), { headers });
    await channel.waitForConfirms();
    const message = await channel.get(queue, { noAck: true });
    const got = message.properties.headers;
    assert.deepStrictEqual(got.array, headers.array);
    assert.deepStrictEqual(got.object, headers.object);
    assert.deepStrictEqual(got.buffer, headers.buffer);
    assert.deepStrictEqual(
      [got.byte, got.int, got.long, got.negative, got.double, got.yes, got.no, got.string],
      [-1, 2 ** 20, 2 ** 40, -(2 ** 40), 0.1, true, false, UNICODE]);
    assert.deepStrictEqual([got.nothing, got.float, got.short], [null, 0.5, -5]);
    assert.strictEqual(got.timestamp.value, 1700000000);
    assert.deepStrictEqual(got.decimal.value, headers.decimal.value);
  },

  async unicode(connection, queue) {
    const channel = await connection.createConfirmChannel();
    const options = { persistent: true, correlationId: UNICODE, messageId: UNICODE };
    await channel.bindQueue(queue, "amq.topic", UNICODE);
    channel.publish("amq.topic", UNICODE, Buffer.from(UNICODE), options);
    await channel.waitForConfirms();
    const [message] = await received(channel, queue, 1, { consumerTag: UNICODE, noAck: true });
    assert.strictEqual(message.fields.routingKey, UNICODE);
    assert.strictEqual(message.fields.consumerTag, UNICODE);
    assert.strictEqual(message.properties.correlationId, UNICODE);
    assert.strictEqual(message.content.toString(), UNICODE);
  },

  async errors(connection, queue) {
    const channel = await connection.createChannel();
    const failed = new Promise((resolve) => channel.on("error", resolve));
    await assert.rejects(channel.checkQueue(`${queue}-missing`), /404/);
    assert.strictEqual((await failed).code, 404);
    const other = await connection.createChannel(); // the connection goes on
    await other.checkQueue(queue);
  },

  async rpc(connection, queue) {
    const channel = await connection.createConfirmChannel();
    await channel.consume(queue, (message) => {
      channel.sendToQueue(message.properties.replyTo, Buffer.from(`re ${message.content}`),
        { correlationId: message.properties.correlationId });
      channel.ack(message);
    });
    const client = await connection.createChannel();
    const answer = new Promise((resolve) =>
      client.consume("amq.rabbitmq.reply-to", resolve, { noAck: true }).then(() =>
        client.sendToQueue(queue, Buffer.from("ask"),
          { replyTo: "amq.rabbitmq.reply-to", correlationId: "1" })));
    const message = await answer;
    assert.strictEqual(message.content.toString(), "re ask");
    assert.strictEqual(message.properties.correlationId, "1");
  },
};

async function main() {
  const [host, port, check, queue, kind] = process.argv.slice(2);
  const connection = await amqp.connect(
    { hostname: host, port: Number(port), username: "guest", password: "guest" });
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: true, arguments: { "x-queue-type": kind } });
  await checks[check](connection, queue);
  await connection.close();
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
