// One check of RabbitMQ's Java client against a broker: java Check.java HOST PORT CHECK NAME KIND
//
// What it declares is named after NAME: the Python test deletes that. A check that fails throws;
// the exit code is then 1 and the reason is on standard error.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcServer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public final class Check {
    private static final long WAIT_MS = 30_000;

    public static void main(String[] words) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(words[0]);
        factory.setPort(Integer.parseInt(words[1]));
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            String name = words[3];
            String kind = words[4];
            switch (words[2]) {
                case "deadletters": deadLetters(channel, name, kind); break;
                case "expiration": expiration(channel, name, kind); break;
                case "priorities": priorities(channel, name, kind); break;
                case "rpc": rpc(connection, channel, name, kind); break;
                default: throw new AssertionError("no check " + words[2]);
            }
        }
        System.exit(0);
    }

    // What a consumer rejects, gives back too often or has no room for.
    private static void deadLetters(Channel channel, String name, String kind) throws Exception {
        String exchange = name + "-dlx";
        String dead = name + "-dead";
        channel.exchangeDeclare(exchange, "direct", true);
        declare(channel, dead, kind);
        channel.queueBind(dead, exchange, name);
        declare(channel, name, kind, "x-dead-letter-exchange", exchange);
        channel.confirmSelect();
        for (int n = 0; n < 10; n++) {
            publish(channel, name, n, null);
        }
        channel.waitForConfirmsOrDie(WAIT_MS);
        channel.basicQos(3);
        BlockingQueue<Integer> settled = new LinkedBlockingQueue<>();
        String tag = channel.basicConsume(name, false, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(
                    String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                    throws java.io.IOException {
                int n = Integer.parseInt(text(body));
                if (n % 3 == 0) {
                    getChannel().basicReject(envelope.getDeliveryTag(), false);
                } else if (n == 4 && !envelope.isRedeliver()) {
                    getChannel().basicNack(envelope.getDeliveryTag(), false, true);
                    return;
                } else {
                    getChannel().basicAck(envelope.getDeliveryTag(), false);
                }
                settled.add(n);
            }
        });
        List<Integer> all = new ArrayList<>();
        for (int n = 0; n < 10; n++) {
            all.add(settled.poll(WAIT_MS, TimeUnit.MILLISECONDS));
        }
        Collections.sort(all);
        same(Arrays.asList(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), all);
        channel.basicCancel(tag);
        List<String> found = new ArrayList<>();
        for (GetResponse got : take(channel, dead, 4)) {
            found.add(text(got.getBody()));
            Map<String, Object> death = death(got);
            same(1L, death.get("count"));
            same("rejected", death.get("reason").toString());
            same(name, death.get("queue").toString());
            same("", death.get("exchange").toString());
            same("[" + name + "]", death.get("routing-keys").toString());
            same(exchange, got.getEnvelope().getExchange());
            same(name, got.getEnvelope().getRoutingKey());
        }
        same(Arrays.asList("0", "3", "6", "9"), found);
        same(0, channel.queueDeclarePassive(name).getMessageCount());
    }

    // By the queue and by the message itself.
    private static void expiration(Channel channel, String name, String kind) throws Exception {
        String dead = name + "-dead";
        declare(channel, dead, kind);
        declare(channel, name, kind, "x-message-ttl", 400, "x-dead-letter-exchange", "",
            "x-dead-letter-routing-key", dead);
        channel.confirmSelect();
        publish(channel, name, 0, "100");
        publish(channel, name, 1, null);
        publish(channel, name, 2, "60000");
        channel.waitForConfirmsOrDie(WAIT_MS);
        List<String> found = new ArrayList<>();
        List<String> said = new ArrayList<>();
        for (GetResponse got : take(channel, dead, 3)) {
            found.add(text(got.getBody()));
            Map<String, Object> death = death(got);
            same("expired", death.get("reason").toString());
            said.add(String.valueOf(death.get("original-expiration")));
            same(null, got.getProps().getExpiration());
        }
        same(Arrays.asList("0", "1", "2"), found);
        same(Arrays.asList("100", "null", "60000"), said);
        same(0, channel.queueDeclarePassive(name).getMessageCount());
        try {
            publish(channel, name, 3, "soon");
            channel.waitForConfirms(WAIT_MS);
        } catch (com.rabbitmq.client.ShutdownSignalException refused) {
            AMQP.Channel.Close close = (AMQP.Channel.Close) refused.getReason();
            same(406, close.getReplyCode());
            return;
        }
        throw new AssertionError("an expiration that is no number was taken");
    }

    // Higher ones first; what both kinds of queues have in common.
    private static void priorities(Channel channel, String name, String kind) throws Exception {
        if (kind.equals("classic")) {
            declare(channel, name, kind, "x-max-priority", 9);
        } else {
            declare(channel, name, kind);
        }
        channel.confirmSelect();
        for (int priority : new int[] {1, 1, 8, 8}) {
            AMQP.BasicProperties properties =
                new AMQP.BasicProperties.Builder().deliveryMode(2).priority(priority).build();
            channel.basicPublish("", name, properties, bytes("" + priority));
        }
        channel.waitForConfirmsOrDie(WAIT_MS);
        List<String> found = new ArrayList<>();
        for (GetResponse got : take(channel, name, 4)) {
            found.add(text(got.getBody()));
        }
        same(kind.equals("classic") ? Arrays.asList("8", "8", "1", "1") : found, found);
        same(2, Collections.frequency(found, "8"));
    }

    private static void rpc(Connection connection, Channel channel, String name, String kind)
            throws Exception {
        declare(channel, name, kind);
        RpcServer server = new RpcServer(channel, name) {
            @Override
            public byte[] handleCall(byte[] asked, AMQP.BasicProperties properties) {
                return bytes("re " + text(asked));
            }
        };
        Thread serving = new Thread(() -> {
            try {
                server.mainloop();
            } catch (Exception over) {
                // The channel is closed with the check.
            }
        });
        serving.setDaemon(true);
        serving.start();
        RpcClient client = new RpcClient(connection.createChannel(), "", name, (int) WAIT_MS);
        for (int n = 0; n < 20; n++) {
            same("re " + n, client.stringCall("" + n));
        }
        client.close();
    }

    private static void declare(Channel channel, String queue, String kind, Object... more)
            throws Exception {
        Map<String, Object> arguments = new HashMap<>();
        arguments.put("x-queue-type", kind);
        for (int at = 0; at < more.length; at += 2) {
            arguments.put((String) more[at], more[at + 1]);
        }
        channel.queueDeclare(queue, true, false, false, arguments);
    }

    private static void publish(Channel channel, String queue, int n, String expiration)
            throws Exception {
        AMQP.BasicProperties properties =
            new AMQP.BasicProperties.Builder().deliveryMode(2).expiration(expiration).build();
        channel.basicPublish("", queue, properties, bytes("" + n));
    }

    private static List<GetResponse> take(Channel channel, String queue, int count)
            throws Exception {
        List<GetResponse> found = new ArrayList<>();
        long end = System.currentTimeMillis() + WAIT_MS;
        while (found.size() < count) {
            GetResponse got = channel.basicGet(queue, true);
            if (got != null) {
                found.add(got);
            } else if (System.currentTimeMillis() > end) {
                throw new AssertionError(found.size() + " messages of " + count + " came");
            } else {
                Thread.sleep(10);
            }
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> death(GetResponse got) {
        return ((List<Map<String, Object>>) got.getProps().getHeaders().get("x-death")).get(0);
    }

    private static void same(Object wanted, Object found) {
        if (wanted == null ? found != null : !wanted.equals(found)) {
            throw new AssertionError("wanted " + wanted + ", found " + found);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
