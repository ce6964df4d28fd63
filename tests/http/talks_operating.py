"""Talks about health checks, members of quorum queues, definitions, nodes and parameters."""

from __future__ import annotations

from tests.http.talk import Ask, Talk

HEALTH = (
    *("alarms", "local-alarms", "node-is-quorum-critical", "node-is-mirror-sync-critical"),
    *("port-listener/{port}", "port-listener/1", "port-listener/x", "protocol-listener/amqp091"),
    *("protocol-listener/amqp", "protocol-listener/none", "virtual-hosts", "is-in-service"),
    *("certificate-expiration/1/weeks", "certificate-expiration/1/none"),
    "certificate-expiration/x/weeks",
    "quorum-queues-without-elected-leaders/all-vhosts",
    "quorum-queues-without-elected-leaders/vhost/h",
    "quorum-queues-without-elected-leaders/vhost/nowhere",
    "quorum-queues-without-elected-leaders/all-vhosts/pattern/q",
    "quorum-queues-without-elected-leaders/vhost/h/pattern/q",
    *("below-node-connection-limit", "ready-to-serve-clients", "metadata-store/initialized"),
    *("metadata-store/initialized/with-data", "none"),
)
QUORUM = "/queues/quorum"
PROTOCOLS = (
    *("amqp,none", "none,zzz,none", "AMQPS", "mqtt3.1", "https", "amqp,", "stomp+tls", "web-mqtt"),
)
HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
SERVED = ("amqp,http", "AMQP091,http1.1", "cli", "distribution", "management", "http_api,amqp")
FORM = {"content-type": "multipart/form-data; boundary=xx"}
FILE = (
    '--xx\r\ncontent-disposition: form-data; name="file"; filename="d.json"\r\n'
    "content-type: application/octet-stream\r\n\r\n"
    '{"queues": [{"name": "of.a.form", "vhost": "h"}]}'
    "\r\n--xx--\r\n"
)

TALKS = [
    Talk("health checks", [Ask("GET", f"/health/checks/{name}") for name in HEALTH]),
    Talk(
        "old health checks",
        [
            Ask("GET", "/healthchecks/node"),
            Ask("GET", "/healthchecks/node", user="h.management"),
            Ask("GET", "/healthchecks/node", user="h.none"),
            Ask("GET", "/healthchecks/node/{node}"),
            Ask("GET", "/healthchecks/node/nowhere"),
            *(Ask("GET", f"/health/checks/protocol-listener/{name}") for name in PROTOCOLS),
            *(Ask("GET", f"/health/checks/protocol-listener/{name}") for name in SERVED),
        ],
    ),
    Talk(
        "definitions as files have them",
        [
            Ask("POST", "/definitions", {
                "queues": [
                    {"name": "amq.gen-ocgMAGymvlpq7QrHjRciaQ", "vhost": "h", "durable": False,
                     "arguments": {"x-queue-type": "classic"}},
                    {"name": "orders", "vhost": "h"},
                ],
                "bindings": [{
                    "source": "amq.topic", "vhost": "h", "destination": "orders",
                    "destination_type": "queue", "routing_key": "orders.#", "arguments": {},
                }],
            }),
            Ask("GET", "/bindings/h?columns=source,destination,routing_key"),
            Ask("POST", "/definitions", {"vhosts": [{
                "name": "h", "description": "d", "tags": "a,b", "tracing": True,
                "metadata": {"default_queue_type": "rabbit_quorum_queue"},
            }]}),
            Ask("GET", "/vhosts/h?columns=name,description,tags,default_queue_type,tracing"),
            Ask("POST", "/definitions", {"vhosts": [{
                "name": "h", "tracing": False,
                "metadata": {"description": "m", "default_queue_type": "classic"},
            }]}),
            Ask("GET", "/vhosts/h?columns=name,description,default_queue_type,tracing"),
            Ask("POST", "/definitions", {"users": [{
                "name": "h.d", "password_hash": HASH, "administrator": True,
                "limits": {"max-connections": 5},
                "permissions": {"h": {"configure": "^a", "write": "^b", "read": "^c"}},
            }]}),
            Ask("GET", "/users/h.d"),
            Ask("POST", "/definitions", {"users": [{
                "name": "h.d", "password_hash": HASH, "tags": [], "limits": {"max-channels": 7},
            }]}),
            Ask("GET", "/users/h.d"),
            Ask("POST", "/definitions", {"users": [
                {"name": "h.d", "password_hash": HASH, "tags": "a, b"},
            ]}),
            Ask("GET", "/users/h.d"),
            Ask("POST", "/definitions", "\ufeff{}".encode()),
            Ask("POST", "/definitions", FILE, headers=FORM),
            Ask("GET", "/queues/h/of.a.form?columns=name,durable"),
            Ask("POST", "/all-configuration", {}),
            Ask("POST", "/definitions/nowhere", {}),
            Ask("POST", "/definitions/h", {
                "users": [{"name": "h.e", "tags": "", "password": "p"}],
                "permissions": [{
                    "user": "h.out", "vhost": "h", "configure": "", "write": "", "read": "",
                }],
                "global_parameters": [{"name": "h.g", "value": 1}],
                "queues": [{"name": "here", "vhost": "/"}],
            }),
            Ask("GET", "/users/h.e"),
            Ask("GET", "/permissions/h/h.out"),
            Ask("GET", "/global-parameters/h.g"),
            Ask("GET", "/queues/h/here?columns=name,vhost"),
            Ask("GET", "/permissions/h/h.d"),
        ],
        after=(Ask("DELETE", "/users/h.d"),),
    ),
    Talk(
        "an export",
        [
            Ask("GET", "/definitions/h"),
            Ask("GET", "/definitions/h?download=h.json"),
        ],
        given=(
            Ask("PUT", "/exchanges/h/t", {"type": "topic", "durable": False}),
            Ask("PUT", "/exchanges/h/i", {"type": "topic", "internal": True}),
            Ask("PUT", "/queues/h/q", {"durable": False}),
            Ask("POST", "/bindings/h/e/t/q/q", {"routing_key": "k"}),
        ),
    ),
    Talk(
        "members of quorum queues",
        [
            Ask("GET", f"{QUORUM}/h/q/status"),
            Ask("GET", f"{QUORUM}/h/none/status"),
            Ask("GET", f"{QUORUM}/h/c/status"),
            Ask("GET", f"{QUORUM}/nowhere/q/status"),
            Ask("POST", f"{QUORUM}/h/q/replicas/add", '{"node": "{node}"}'),
            Ask("POST", f"{QUORUM}/h/q/replicas/add", {"node": "nowhere"}),
            Ask("POST", f"{QUORUM}/h/none/replicas/add", '{"node": "{node}"}'),
            Ask("POST", f"{QUORUM}/h/c/replicas/add", '{"node": "{node}"}'),
            Ask("POST", f"{QUORUM}/h/q/replicas/add", {}),
            Ask("DELETE", f"{QUORUM}/h/q/replicas/delete", {"node": "nowhere"}),
            Ask("DELETE", f"{QUORUM}/h/q/replicas/delete", '{"node": "{node}"}'),
            Ask("POST", f"{QUORUM}/replicas/on/{{node}}/grow", {
                "strategy": "all", "vhost_pattern": ".*", "queue_pattern": ".*",
            }),
            Ask("POST", f"{QUORUM}/replicas/on/{{node}}/grow", {
                "strategy": "none", "vhost_pattern": ".*", "queue_pattern": ".*",
            }),
            Ask("POST", f"{QUORUM}/replicas/on/{{node}}/grow", {"strategy": "all"}),
            Ask("POST", f"{QUORUM}/replicas/on/nowhere/grow", {
                "strategy": "all", "vhost_pattern": ".*", "queue_pattern": ".*",
            }),
            Ask("DELETE", f"{QUORUM}/replicas/on/{{node}}/shrink"),
            Ask("DELETE", f"{QUORUM}/replicas/on/nowhere/shrink"),
            Ask("POST", "/rebalance/queues"),
            Ask("GET", "/rebalance/queues"),
            Ask("POST", "/queues/h/q/actions", {"action": "sync"}),
            Ask("POST", "/queues/h/q/actions", {"action": "none"}),
            Ask("POST", "/queues/h/q/actions", {}),
        ],
        given=(
            Ask("PUT", "/queues/h/q", {
                "durable": True, "arguments": {"x-queue-type": "quorum"},
            }),
            Ask("PUT", "/queues/h/c", {"durable": True}),
        ),
    ),
    Talk(
        "definitions",
        [
            Ask("GET", "/definitions/h"),
            Ask("GET", "/definitions/nowhere"),
            Ask("POST", "/definitions/h", {
                "queues": [{"name": "n", "durable": True, "auto_delete": False, "arguments": {}}],
                "exchanges": [{
                    "name": "x", "type": "topic", "durable": True, "auto_delete": False,
                    "internal": False, "arguments": {},
                }],
                "bindings": [{
                    "source": "x", "destination": "n", "destination_type": "queue",
                    "routing_key": "k", "arguments": {},
                }],
                "policies": [{
                    "name": "p", "pattern": "^n", "apply-to": "queues",
                    "definition": {"max-length": 9}, "priority": 1,
                }],
            }),
            Ask("GET", "/definitions/h"),
            Ask("POST", "/definitions/h", "{"),
            Ask("POST", "/definitions", {}),
            Ask("POST", "/definitions", {
                "users": [{
                    "name": "h.d", "tags": ["management"], "limits": {},
                    "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
                    "hashing_algorithm": "rabbit_password_hashing_sha256",
                }],
                "permissions": [{
                    "user": "h.d", "vhost": "h", "configure": "^a", "write": "^b", "read": "^c",
                }],
            }),
            Ask("GET", "/users/h.d"),
            Ask("GET", "/permissions/h/h.d"),
            Ask("PUT", "/definitions", {}),
        ],
        after=(Ask("DELETE", "/users/h.d"),),
    ),
    Talk(
        "parameters",
        [
            Ask("GET", "/parameters/none"),
            Ask("GET", "/parameters/none/h"),
            Ask("GET", "/parameters/none/h/n"),
            Ask("PUT", "/parameters/none/h/n", {"value": 5}),
            Ask("DELETE", "/parameters/none/h/n"),
            Ask("PUT", "/global-parameters/h.g", {"value": {"a": [1, "b"]}}),
            Ask("PUT", "/global-parameters/h.g", {"value": 5}),
            Ask("GET", "/global-parameters/h.g"),
            Ask("PUT", "/global-parameters/h.g", {}),
            Ask("DELETE", "/global-parameters/h.g"),
            Ask("DELETE", "/global-parameters/h.g"),
            Ask("GET", "/global-parameters/h.g"),
        ],
        after=(Ask("DELETE", "/global-parameters/h.g"),),
    ),
    Talk(
        "nodes",
        [
            Ask("GET", "/nodes?columns=name,type,running,being_drained,mem_alarm,disk_free_alarm"),
            Ask("GET", "/nodes/{node}?columns=name,type,running,partitions,rates_mode"),
            Ask("GET", "/nodes/nowhere"),
            Ask("GET", "/auth/attempts/nowhere"),
            Ask("PUT", "/cluster-name", {}),
            Ask("PUT", "/cluster-name", {"name": "h.cluster"}),
            Ask("GET", "/cluster-name"),
            Ask("GET", "/auth"),
            Ask("GET", "/consumers/h"),
            Ask("GET", "/connections"),
            Ask("GET", "/connections/none"),
            Ask("DELETE", "/connections/none"),
            Ask("GET", "/channels"),
            Ask("GET", "/channels/none"),
            Ask("GET", "/vhosts/h/channels"),
            Ask("GET", "/feature-flags/none"),
            Ask("GET", "/deprecated-features/used"),
            Ask("PUT", "/feature-flags/none/enable", {}),
        ],
    ),
]  # fmt: skip
