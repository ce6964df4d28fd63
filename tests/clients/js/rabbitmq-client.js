// One check of rabbitmq-client against a broker: node rabbitmq-client.js HOST PORT CHECK NAME KIND
//
// What it declares is named after NAME: the Python test deletes that. A check that fails throws;
// the exit code is then 1 and the reason is on standard error.

"use strict";

const assert = require("node:assert");
const { Connection, ConsumerStatus } = require("rabbitmq-client");

async function until(done) {
  for (let tries = 0; tries < 3000; tries++) {
    if (await done()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("it did not come about");
}

function declared(rabbit, queue, kind, more) {
  const args = { "x-queue-type": kind, ...more };
  return rabbit.queueDeclare({ queue, durable: true, arguments: args });
}

const checks = {
  // Handlers that throw, drop and give back; what was dropped is in the queue for dead letters.
  async deadletters(rabbit, name, kind) {
    const exchange = `${name}-dlx`;
    const dead = `${name}-dead`;
    await rabbit.exchangeDeclare({ exchange, type: "topic", durable: true });
    await declared(rabbit, dead, kind);
    await rabbit.queueBind({ exchange, queue: dead, routingKey: "failed.#" });
    const seen = [];
    const consumer = rabbit.createConsumer({
      queue: name,
      queueOptions: {
        durable: true,
        arguments: {
          "x-queue-type": kind, "x-dead-letter-exchange": exchange,
          "x-dead-letter-routing-key": "failed.task",
        },
      },
      qos: { prefetchCount: 4 },
      requeue: false,
    }, async (message) => {
      seen.push([message.body.n, message.redelivered]);
      if (message.body.n === 1) throw new Error("it fails, and is not given back");
      if (message.body.n === 2) return ConsumerStatus.DROP;
      if (message.body.n === 3 && !message.redelivered) return ConsumerStatus.REQUEUE;
      return ConsumerStatus.ACK;
    });
    const failures = [];
    consumer.on("error", (error) => failures.push(error));
    await new Promise((resolve) => consumer.once("ready", resolve));
    const publisher = rabbit.createPublisher({ confirm: true, maxAttempts: 2 });
    for (let n = 0; n < 6; n++) {
      await publisher.send({ routingKey: name, durable: true, messageId: `m${n}` }, { n });
    }
    await until(() => seen.length === 7);
    assert.deepStrictEqual(seen.filter(([, again]) => again), [[3, true]]);
    const found = {};
    await until(async () => {
      const message = await rabbit.basicGet({ queue: dead, noAck: true });
      if (message) found[message.messageId] = message;
      return Object.keys(found).length === 2;
    });
    assert.deepStrictEqual(Object.keys(found).sort(), ["m1", "m2"]);
    for (const message of Object.values(found)) {
      const [death] = message.headers["x-death"];
      assert.deepStrictEqual(
        [death.count, death.reason, death.queue, death.exchange, death["routing-keys"]],
        [1, "rejected", name, "", [name]]);
      assert.strictEqual(message.headers["x-first-death-queue"], name);
      assert.deepStrictEqual([message.exchange, message.routingKey], [exchange, "failed.task"]);
    }
    assert.strictEqual(failures.length, 1);
    await consumer.close();
    await publisher.close();
  },

  // By the queue's time to live and by the messages' own; in order, with what they said.
  async expiration(rabbit, name, kind) {
    const dead = `${name}-dead`;
    await declared(rabbit, dead, kind);
    await declared(rabbit, name, kind, {
      "x-message-ttl": 400, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead,
    });
    const publisher = rabbit.createPublisher({ confirm: true });
    await publisher.send({ routingKey: name, expiration: "100", messageId: "own" }, "x");
    await publisher.send({ routingKey: name, messageId: "queue's" }, "y");
    await publisher.send({ routingKey: name, expiration: "60000", messageId: "longer" }, "z");
    const found = [];
    await until(async () => {
      const message = await rabbit.basicGet({ queue: dead, noAck: true });
      if (message) found.push(message);
      return found.length === 3;
    });
    assert.deepStrictEqual(found.map((each) => each.messageId), ["own", "queue's", "longer"]);
    const told = found.map((each) => each.headers["x-death"][0]);
    assert.deepStrictEqual(told.map((death) => death.reason), Array(3).fill("expired"));
    assert.deepStrictEqual(
      told.map((death) => death["original-expiration"]), ["100", undefined, "60000"]);
    assert.deepStrictEqual(found.map((each) => each.expiration), Array(3).fill(undefined));
    assert.strictEqual((await rabbit.queuePurge({ queue: name })).messageCount, 0);
    await publisher.close();
  },

  // A failed task waits in a queue without consumers and comes back, with its count.
  async backoff(rabbit, name, kind) {
    const wait = `${name}-wait`;
    await declared(rabbit, wait, kind, {
      "x-message-ttl": 150, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": name,
    });
    const counts = [];
    const consumer = rabbit.createConsumer({
      queue: name,
      queueOptions: {
        durable: true,
        arguments: {
          "x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait,
        },
      },
    }, async (message) => {
      const deaths = (message.headers && message.headers["x-death"]) || [];
      const rejected = deaths.find((death) => death.reason === "rejected");
      counts.push(rejected ? rejected.count : 0);
      return counts.length < 4 ? ConsumerStatus.DROP : ConsumerStatus.ACK;
    });
    await new Promise((resolve) => consumer.once("ready", resolve));
    const publisher = rabbit.createPublisher({ confirm: true });
    await publisher.send({ routingKey: name, durable: true }, "task");
    await until(() => counts.length === 4);
    assert.deepStrictEqual(counts, [0, 1, 2, 3]);
    await consumer.close();
    await publisher.close();
  },

  // What it calls RPC: a consumer that replies, a client with an exclusive queue of its own.
  async rpc(rabbit, name, kind) {
    const server = rabbit.createConsumer({
      queue: name,
      queueOptions: { durable: true, arguments: { "x-queue-type": kind } },
    }, async (message, reply) => {
      await reply(message.body.map((n) => n * n));
    });
    await new Promise((resolve) => server.once("ready", resolve));
    const client = rabbit.createRPCClient({ confirm: true, timeout: 20000 });
    const answers = await Promise.all(
      [1, 2, 3, 4].map((n) => client.send({ routingKey: name }, [n, n + 1])));
    assert.deepStrictEqual(
      answers.map((answer) => answer.body), [[1, 4], [4, 9], [9, 16], [16, 25]]);
    await client.close();
    await server.close();
  },
};

async function main() {
  const [host, port, check, name, kind] = process.argv.slice(2);
  const rabbit = new Connection(`amqp://guest:guest@${host}:${port}`);
  let failed = null;
  rabbit.on("error", (error) => { failed = failed || error; });
  await new Promise((resolve) => rabbit.once("connection", resolve));
  await checks[check](rabbit, name, kind);
  await rabbit.close();
  if (failed) throw failed;
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
