"""Talks about who may ask, users, permissions, limits and vhosts."""

from __future__ import annotations

from tests.http.talk import ROLES, Ask, Talk

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}

READ = (
    *("/whoami", "/overview", "/nodes", "/users", "/users/guest", "/vhosts", "/vhosts/h"),
    *("/permissions", "/permissions/h/guest", "/topic-permissions", "/policies", "/policies/h"),
    *("/operator-policies", "/operator-policies/h", "/queues", "/queues/h", "/queues/h/none"),
    *("/exchanges/h", "/exchanges/h/amq.topic", "/bindings/h", "/vhost-limits", "/vhost-limits/h"),
    *("/user-limits", "/users/guest/permissions", "/vhosts/h/permissions", "/connections"),
    *("/channels", "/consumers", "/definitions/h", "/parameters", "/global-parameters/none"),
    *("/health/checks/alarms", "/health/checks/node-is-quorum-critical"),
    *("/exchanges/h/amq.topic/bindings/source", "/nodes/{node}", "/users/h.none/permissions"),
    *("/vhosts/h/connections", "/connections/username/guest", "/feature-flags/none"),
    *("/nodes/{node}/memory", "/nodes/{node}/memory/relative"),
    *("/auth/attempts/{node}/source", "/auth/hash_password/x"),
)
"""What anybody may try to read; answers of some have much that is measured."""

NARROW = {
    "/overview": "node,rabbitmq_version,disable_stats",
    "/nodes": "name,running,type",
    "/nodes/{node}": "name,running,type",
    "/users": "name,tags",
    "/permissions": "user",
    "/vhosts": "name,tracing",
    "/vhosts/h": "name,tracing",
    "/definitions/h": "rabbitmq_version",
    "/nodes/{node}/memory": "memory.strategy",
    "/nodes/{node}/memory/relative": "memory.total",
}


def read(path: str, user: str | None) -> Ask:
    """A request to read something, with few columns where there are many."""
    columns = f"?columns={NARROW[path]}" if path in NARROW else ""
    return Ask("GET", path + columns, user=user)


WRITE = (
    Ask("PUT", "/vhosts/h2", {}),
    Ask("PUT", "/users/h.new", {"password": "x", "tags": ""}),
    Ask("PUT", "/permissions/h/h.new", EVERYTHING),
    Ask("PUT", "/topic-permissions/h/h.new", {"exchange": "amq.topic", "write": "", "read": ""}),
    Ask("PUT", "/user-limits/h.new/max-channels", {"value": 5}),
    Ask("PUT", "/vhost-limits/h/max-queues", {"value": 50}),
    Ask("PUT", "/policies/h/p", {"pattern": "^a", "definition": {"max-length": 5}}),
    Ask("PUT", "/operator-policies/h/p", {"pattern": "^a", "definition": {"max-length": 5}}),
    Ask("PUT", "/queues/h/q", {}),
    Ask("PUT", "/exchanges/h/e", {"type": "topic"}),
    Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "k"}),
    Ask("POST", "/exchanges/h/e/publish", {
        "properties": {}, "routing_key": "k", "payload": "p", "payload_encoding": "string",
    }),
    Ask("POST", "/queues/h/q/get", {
        "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto",
    }),
    Ask("DELETE", "/queues/h/q/contents"),
    Ask("POST", "/rebalance/queues"),
    Ask("DELETE", "/auth/attempts/{node}"),
    Ask("DELETE", "/auth/attempts/{node}/source"),
    Ask("DELETE", "/reset"),
    Ask("DELETE", "/reset/{node}"),
    Ask("DELETE", "/bindings/h/e/e/q/q/k"),
    Ask("DELETE", "/exchanges/h/e"),
    Ask("DELETE", "/queues/h/q"),
    Ask("DELETE", "/operator-policies/h/p"),
    Ask("DELETE", "/policies/h/p"),
    Ask("DELETE", "/vhost-limits/h/max-queues"),
    Ask("DELETE", "/user-limits/h.new/max-channels"),
    Ask("DELETE", "/topic-permissions/h/h.new"),
    Ask("DELETE", "/permissions/h/h.new"),
    Ask("DELETE", "/users/h.new"),
    Ask("DELETE", "/vhosts/h2"),
)  # fmt: skip
"""What anybody may try to change, in an order in which an administrator can do all of it."""

CLEANED = (Ask("DELETE", "/users/h.new"), Ask("DELETE", "/vhosts/h2"))

TALKS = [
    Talk(
        "login",
        [
            Ask("GET", "/whoami"),
            Ask("GET", "/whoami", user=None),
            Ask("GET", "/whoami", user="guest:wrong"),
            Ask("GET", "/whoami", user="nobody:wrong"),
            Ask("GET", "/whoami", user="h.none"),
            Ask("GET", "/whoami", user=None, headers={"authorization": "Basic %%%"}),
            Ask("GET", "/whoami", user=None, headers={"authorization": "Basic"}),
            Ask("GET", "/whoami", user=None, headers={"authorization": "Digest username=guest"}),
            Ask("GET", "/whoami", user=None, headers={"authorization": "Basic Z3Vlc3Q="}),
            Ask("HEAD", "/whoami"),
            Ask("PUT", "/whoami", {}),
            Ask("PUT", "/whoami", {}, user=None),
            Ask("DELETE", "/whoami"),
            Ask("OPTIONS", "/whoami", user=None),
            Ask("GET", "/whoami/"),
            Ask("GET", "//whoami"),
            Ask("GET", "/%77hoami"),
            Ask("GET", "/whoami?columns=name"),
            Ask("GET", "/nothing"),
            Ask("GET", "/nothing", user=None),
            Ask("PUT", "/nothing", {}),
            Ask("GET", "!/nothing"),
            Ask("GET", "/version"),
            Ask("GET", "/cluster-name?columns=x"),
            Ask("GET", "/whoami", headers={"accept": "application/json"}),
            Ask("GET", "/whoami", headers={"accept": "text/html"}),
        ],
    ),
    *(Talk(f"read as {user}", [read(path, user) for path in READ]) for user in ROLES),
    *(
        Talk(f"write as {user}", [ask._replace(user=user) for ask in WRITE], after=CLEANED)
        for user in ROLES
    ),
    Talk(
        "users",
        [
            Ask("PUT", "/users/h.u", {"password": "x", "tags": "management,monitoring"}),
            Ask("PUT", "/users/h.u", {"password": "x", "tags": "management"}),
            Ask("GET", "/users/h.u"),
            Ask("PUT", "/users/h.u", {"password": "x", "tags": ["policymaker"]}),
            Ask("GET", "/users/h.u"),
            Ask("PUT", "/users/h.u", {"password": "x"}),
            Ask("PUT", "/users/h.u", {"tags": "administrator"}),
            Ask("GET", "/users/h.u"),
            Ask("PUT", "/users/h.u", {"password_hash": "", "tags": "administrator"}),
            Ask(
                "PUT",
                "/users/h.u",
                {
                    "password_hash": "2lmoth8l4H0DViLaK9Fxi6l9ds8=",
                    "tags": "",
                },
            ),
            Ask("PUT", "/users/h.u", {"password_hash": "nothing!", "tags": ""}),
            Ask(
                "PUT",
                "/users/h.u",
                {
                    "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
                    "hashing_algorithm": "rabbit_password_hashing_sha256",
                    "tags": "t",
                },
            ),
            Ask("GET", "/users/h.u"),
            Ask("GET", "/whoami", user="h.u:test12"),
            Ask("PUT", "/users/h.u", {"password": "x", "tags": 5}),
            Ask("PUT", "/users/h.u", "{"),
            Ask("PUT", "/users/h.u", "[]"),
            Ask("PUT", "/users/h.u", "5"),
            Ask("GET", "/users/h.u/permissions"),
            Ask("GET", "/users/h.nobody"),
            Ask("GET", "/users/h.nobody/permissions"),
            Ask("GET", "/users/h.nobody/topic-permissions"),
            Ask("GET", "/users/without-permissions?columns=name"),
            Ask("POST", "/users/bulk-delete", {"users": ["h.u"]}),
            Ask("POST", "/users/bulk-delete", {}),
            Ask("GET", "/users/h.u"),
            Ask("DELETE", "/users/h.u"),
            Ask("POST", "/users/h.u", {}),
        ],
        after=(Ask("DELETE", "/users/h.u"),),
    ),
    Talk(
        "permissions",
        [
            Ask("GET", "/permissions/h/h.p"),
            Ask("PUT", "/permissions/h/h.p", {"configure": "^a", "write": "^b", "read": "^c"}),
            Ask("PUT", "/permissions/h/h.p", {"configure": "", "write": "^b", "read": "^c"}),
            Ask("GET", "/permissions/h/h.p"),
            Ask("PUT", "/permissions/h/h.p", {"configure": "^a"}),
            Ask("PUT", "/permissions/h/h.p", {"configure": "(", "write": "", "read": ""}),
            Ask("PUT", "/permissions/h/h.p", {"configure": 5, "write": "", "read": ""}),
            Ask("PUT", "/permissions/h/h.nobody", EVERYTHING),
            Ask("PUT", "/permissions/nowhere/h.p", EVERYTHING),
            Ask("GET", "/permissions/nowhere/h.p"),
            Ask("GET", "/users/h.p/permissions"),
            Ask(
                "PUT",
                "/topic-permissions/h/h.p",
                {
                    "exchange": "amq.topic",
                    "write": "^w",
                    "read": "^r",
                },
            ),
            Ask("GET", "/topic-permissions/h/h.p"),
            Ask("GET", "/users/h.p/topic-permissions"),
            Ask("GET", "/vhosts/h/topic-permissions"),
            Ask("PUT", "/topic-permissions/h/h.p", {"exchange": "amq.topic"}),
            Ask(
                "PUT",
                "/topic-permissions/h/h.nobody",
                {
                    "exchange": "amq.topic",
                    "write": "^w",
                    "read": "^r",
                },
            ),
            Ask("DELETE", "/topic-permissions/h/h.p"),
            Ask("GET", "/topic-permissions/h/h.p"),
            Ask("DELETE", "/topic-permissions/h/h.p"),
            Ask("DELETE", "/permissions/h/h.p"),
            Ask("DELETE", "/permissions/h/h.p"),
            Ask("GET", "/vhosts/nowhere/permissions"),
        ],
        given=(Ask("PUT", "/users/h.p", {"password": "x", "tags": ""}),),
        after=(Ask("DELETE", "/users/h.p"),),
    ),
    Talk(
        "limits",
        [
            Ask("PUT", "/vhost-limits/h/max-queues", {"value": 5}),
            Ask("PUT", "/vhost-limits/h/max-connections", {"value": 7}),
            Ask("PUT", "/vhost-limits/h/max-queues", {"value": 6}),
            Ask("GET", "/vhost-limits/h"),
            Ask("GET", "/vhost-limits/nowhere"),
            Ask("PUT", "/vhost-limits/h/nothing", {"value": 5}),
            Ask("PUT", "/vhost-limits/h/max-queues", {"value": "x"}),
            Ask("PUT", "/vhost-limits/h/max-queues", {}),
            Ask("PUT", "/vhost-limits/nowhere/max-queues", {"value": 5}),
            Ask("DELETE", "/vhost-limits/h/max-queues"),
            Ask("GET", "/vhost-limits/h"),
            Ask("DELETE", "/vhost-limits/h/max-queues"),
            Ask("PUT", "/user-limits/h.l/max-channels", {"value": 5}),
            Ask("PUT", "/user-limits/h.l/max-connections", {"value": 5}),
            Ask("GET", "/user-limits/h.l"),
            Ask("GET", "/user-limits/h.nobody"),
            Ask("PUT", "/user-limits/h.l/nothing", {"value": 5}),
            Ask("PUT", "/user-limits/h.l/max-channels", {"value": "x"}),
            Ask("PUT", "/user-limits/h.nobody/max-channels", {"value": 5}),
            Ask("DELETE", "/user-limits/h.l/max-channels"),
            Ask("GET", "/user-limits/h.l"),
            Ask("GET", "/users/h.l"),
        ],
        given=(Ask("PUT", "/users/h.l", {"password": "x", "tags": ""}),),
        after=(Ask("DELETE", "/users/h.l"),),
    ),
    Talk(
        "vhosts",
        [
            Ask("PUT", "/vhosts/h%2F3", {"description": "third", "tags": "a,b"}),
            Ask("GET", "/vhosts/h%2F3?columns=name,description,tags,metadata,default_queue_type"),
            Ask("PUT", "/vhosts/h%2F3", {"description": "third", "tags": "a"}),
            Ask("GET", "/vhosts/h%2F3?columns=description,tags,metadata"),
            Ask("GET", "/permissions/h%2F3/guest"),
            Ask("PUT", "/vhosts/h%2F3", {"default_queue_type": "quorum"}),
            Ask("GET", "/vhosts/h%2F3?columns=description,tags,default_queue_type"),
            Ask("PUT", "/vhosts/h%2F3", {"default_queue_type": "nothing"}),
            Ask("PUT", "/vhosts/h%2F3", "{"),
            Ask("GET", "/vhosts/h%2F3?columns=name,tracing,cluster_state,protected_from_deletion"),
            Ask("POST", "/vhosts/h%2F3/deletion/protection"),
            Ask("DELETE", "/vhosts/h%2F3"),
            Ask("DELETE", "/vhosts/h%2F3/deletion/protection"),
            Ask("DELETE", "/vhosts/h%2F3"),
            Ask("DELETE", "/vhosts/h%2F3"),
            Ask("GET", "/vhosts/h%2F3"),
            Ask("POST", "/vhosts/h/start/{node}"),
            Ask("POST", "/vhosts/h/start/nowhere"),
        ],
        after=(
            Ask("DELETE", "/vhosts/h%2F3/deletion/protection"),
            Ask("DELETE", "/vhosts/h%2F3"),
        ),
    ),
]
