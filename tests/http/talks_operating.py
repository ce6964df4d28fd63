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

TALKS = [
    Talk("health checks", [Ask("GET", f"/health/checks/{name}") for name in HEALTH]),
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
