// Checks of rabbitmq-admin against the HTTP API; driven by tests/clients/test_client_http_api.py.
//
//     node rabbitmq-admin.js HOST PORT CHECK NAME KIND

'use strict'

const assert = require('node:assert')
const { RabbitAdmin } = require('rabbitmq-admin')

const [host, port, check, name, kind] = process.argv.slice(2)
const admin = RabbitAdmin({ rabbitHost: `http://${host}:${port}` })
const vhost = '/'

async function declare () {
  await admin.createQueue(vhost, name, { durable: true, arguments: { 'x-queue-type': kind } })
  await admin.createExchange(vhost, { name: `${name}.x`, type: 'topic', durable: true })
}

async function remove () {
  await admin.deleteQueue(vhost, name, {})
  await admin.deleteExchange(vhost, `${name}.x`)
}

const checks = {
  async figures () {
    const overview = await admin.getOverview()
    assert.ok(overview.rabbitmq_version && overview.object_totals.exchanges > 0)
    const before = await admin.getClusterName()
    await admin.setClusterName('renamed')
    assert.strictEqual((await admin.getClusterName()).name, 'renamed')
    await admin.setClusterName(before.name)
    const [node] = await admin.getNodes()
    assert.strictEqual((await admin.getNode(node.name)).name, node.name)
    assert.ok(Array.isArray(await admin.getExtensions()))
    assert.ok((await admin.getDefinitions()).users.length > 0)
    assert.ok(Array.isArray((await admin.getDefinitions(vhost)).queues))
    for (const list of [admin.getConnections, admin.getChannels]) {
      const page = await list({ page: 1, pageSize: 10 })
      assert.ok(Array.isArray(page.items) && page.page === 1)
      assert.strictEqual((await list()).page, 1)
    }
    assert.ok(Array.isArray((await admin.getVhostConnections(vhost)).items))
    assert.ok(Array.isArray(await admin.getVhostChannels(vhost)))
    assert.ok(Array.isArray(await admin.getConsumers()))
    assert.ok(Array.isArray(await admin.getConsumers(vhost)))
    assert.strictEqual(await admin.getConnection('none'), null)
  },

  async queues () {
    await declare()
    const found = await admin.getQueue(vhost, name)
    assert.strictEqual(found.type, kind)
    assert.ok(found.durable)
    const page = await admin.getQueues(vhost, { page: 1, pageSize: 5, name, useRegex: false })
    assert.deepStrictEqual(page.items.map((each) => each.name), [name])
    assert.ok((await admin.getQueues()).items.some((each) => each.name === name))
    assert.ok((await admin.getExchanges(vhost)).items.some((each) => each.name === `${name}.x`))
    assert.strictEqual((await admin.getExchange(vhost, `${name}.x`)).type, 'topic')
    await remove()
    await assert.rejects(admin.getQueue(vhost, name), { statusCode: 404 })
  },

  async bindings () {
    await declare()
    const binding = { vhost, source: `${name}.x`, destination: name, type: 'queue' }
    await admin.createBinding({ ...binding, routingKey: 'a.#' })
    const [found] = await admin.getBindings(binding)
    assert.strictEqual(found.routing_key, 'a.#')
    const props = found.properties_key
    assert.strictEqual((await admin.getBinding({ ...binding, props })).routing_key, 'a.#')
    assert.strictEqual((await admin.getQueueBindings(vhost, name)).length, 2)
    assert.strictEqual((await admin.getSourceExchangeBindings(vhost, `${name}.x`)).length, 1)
    assert.strictEqual((await admin.getDestinationExchangeBindings(vhost, `${name}.x`)).length, 0)
    assert.ok((await admin.getBindings({ vhost })).length >= 2)
    assert.ok((await admin.getBindings()).length >= 2)
    await admin.deleteBinding({ ...binding, props })
    assert.deepStrictEqual(await admin.getBindings(binding), [])
    await remove()
  },

  async messages () {
    await declare()
    await admin.createBinding({
      vhost, source: `${name}.x`, destination: name, type: 'queue', routingKey: '#'
    })
    const message = {
      routing_key: 'k',
      payload: 'hello',
      payload_encoding: 'string',
      properties: { headers: { a: 1 } }
    }
    assert.deepStrictEqual(
      await admin.publishToExchange(vhost, `${name}.x`, message), { routed: true }
    )
    const wanted = { count: 5, ackmode: 'ack_requeue_false', encoding: 'auto' }
    const [got] = await admin.getMessages(vhost, name, wanted)
    assert.strictEqual(got.payload, 'hello')
    assert.deepStrictEqual(got.properties.headers, { a: 1 })
    assert.deepStrictEqual(await admin.getMessages(vhost, name, wanted), [])
    await remove()
  },

  async vhosts () {
    await admin.createVhost(name)
    assert.strictEqual((await admin.getVhost(name)).name, name)
    assert.ok((await admin.listVhosts()).some((each) => each.name === name))
    const rights = { configure: '.*', write: '^a', read: '' }
    await admin.setUserPermissions(name, 'guest', rights)
    const found = await admin.getUserPermissions(name, 'guest')
    assert.deepStrictEqual([found.configure, found.write, found.read], ['.*', '^a', ''])
    await admin.deleteVhost(name)
    assert.strictEqual(await admin.getVhost(name), null)
  }
}

checks[check]().catch((error) => {
  console.error(error)
  process.exitCode = 1
})
