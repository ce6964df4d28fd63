"""The API's own description, in the form of OpenAPI 3.1: `/api/openapi.json`.

Paths, methods and texts are those of the resources. Who may ask is read from the operations that a
handler calls. Bodies stand here, since handlers take them apart themselves, as RabbitMQ's do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from warren import __version__
from warren.admin.http.asked import Resource
from warren.admin.service.caller import ADMINISTRATOR, IMPLIED, MANAGEMENT
from warren.admin.service.operation import Operation

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
TRUTH: Final[Schema] = {"type": "boolean"}
ANYTHING: Final[Schema] = {}
TABLE: Final[Schema] = {"type": "object", "additionalProperties": True}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
TAGS: Final[Schema] = {"anyOf": [TEXT, TEXTS]}


def body(needed: Mapping[str, Schema], **further: Schema) -> Schema:
    """A body with some properties that have to be there, and some that may."""
    named = {name.replace("__", "-"): schema for name, schema in further.items()}
    return {
        "type": "object",
        "required": list(needed),
        "properties": {**needed, **named},
        "additionalProperties": True,
    }


POLICY: Final = body({"pattern": TEXT, "definition": TABLE}, priority=WHOLE, apply__to=TEXT)
VALUE: Final = body({"value": ANYTHING})
NUMBER: Final = body({"value": WHOLE})
NODE: Final = body({"node": TEXT})

BODIES: Final[dict[str, Schema]] = {
    "PUT /api/cluster-name": body({"name": TEXT}),
    "PUT /api/users/{user}": body(
        {"tags": TAGS}, password=TEXT, password_hash=TEXT, hashing_algorithm=TEXT
    ),
    "POST /api/users/bulk-delete": body({"users": TEXTS}),
    "PUT /api/permissions/{vhost}/{user}": body({"configure": TEXT, "write": TEXT, "read": TEXT}),
    "PUT /api/topic-permissions/{vhost}/{user}": body(
        {"exchange": TEXT, "write": TEXT, "read": TEXT}
    ),
    "PUT /api/vhost-limits/{vhost}/{name}": NUMBER,
    "PUT /api/user-limits/{user}/{name}": NUMBER,
    "PUT /api/policies/{vhost}/{name}": POLICY,
    "PUT /api/operator-policies/{vhost}/{name}": POLICY,
    "PUT /api/vhosts/{vhost}": body({}, description=TEXT, tags=TAGS, default_queue_type=TEXT),
    "PUT /api/queues/{vhost}/{queue}": body({}, durable=TRUTH, auto_delete=TRUTH, arguments=TABLE),
    "POST /api/queues/{vhost}/{queue}/get": body(
        {
            "ackmode": {
                "enum": [
                    "ack_requeue_true",
                    "ack_requeue_false",
                    "reject_requeue_true",
                    "reject_requeue_false",
                ]
            },
            "count": WHOLE,
            "encoding": {"enum": ["auto", "base64"]},
        },
        truncate=WHOLE,
    ),
    "POST /api/queues/{vhost}/{queue}/look": body(
        {},
        position=WHOLE,
        count=WHOLE,
        truncate=WHOLE,
        encoding={"enum": ["auto", "base64"]},
    ),
    "POST /api/queues/{vhost}/{queue}/search": body(
        {"where": {"enum": ["body", "header", "property"]}, "text": TEXT},
        name=TEXT,
        behind=WHOLE,
        count=WHOLE,
        truncate=WHOLE,
        encoding={"enum": ["auto", "base64"]},
    ),
    "POST /api/queues/{vhost}/{queue}/actions": body({"action": TEXT}),
    "PUT /api/exchanges/{vhost}/{exchange}": body(
        {}, type=TEXT, durable=TRUTH, auto_delete=TRUTH, internal=TRUTH, arguments=TABLE
    ),
    "POST /api/exchanges/{vhost}/{exchange}/publish": body(
        {
            "properties": TABLE,
            "routing_key": TEXT,
            "payload": TEXT,
            "payload_encoding": {"enum": ["string", "base64"]},
        }
    ),
    "POST /api/bindings/{vhost}/e/{exchange}/{kind}/{destination}": body(
        {}, routing_key=TEXT, arguments=TABLE
    ),
    "POST /api/definitions": TABLE,
    "POST /api/definitions/{vhost}": TABLE,
    "PUT /api/parameters/{component}/{vhost}/{name}": VALUE,
    "PUT /api/global-parameters/{name}": VALUE,
    "POST /api/queues/quorum/replicas/on/{node}/grow": body(
        {"strategy": {"enum": ["all", "even"]}, "vhost_pattern": TEXT, "queue_pattern": TEXT}
    ),
    "POST /api/queues/quorum/{vhost}/{queue}/replicas/add": NODE,
    "DELETE /api/queues/quorum/{vhost}/{queue}/replicas/delete": NODE,
}
"""What requests say, by method and path; others need no body."""

FURTHER_TAGS: Final = {"POST /api/queues/{vhost}/{queue}/actions": [ADMINISTRATOR]}
"""Who may ask for what no operation does."""

PAGED: Final = {
    "page": WHOLE,
    "page_size": WHOLE,
    "name": TEXT,
    "use_regex": TRUTH,
    "sort": TEXT,
    "sort_reverse": TRUTH,
    "columns": TEXT,
}
RANGED: Final = {
    f"{kind}_{part}": WHOLE
    for kind in ("lengths", "msg_rates", "data_rates", "node_stats")
    for part in ("age", "incr")
}
QUERIES: Final[Mapping[str, Mapping[str, Schema]]] = {
    "listed": PAGED,
    "Page": PAGED,
    "narrowed_one": {"columns": TEXT},
    "Ranges": RANGED,
}
"""What may stand in the query, by the names of what reads it there."""

ANSWERS: Final = {
    "GET": {"200": "What was asked for"},
    "PUT": {"201": "It is there now", "204": "It was there, and is as was asked"},
    "POST": {"200": "Done", "201": "It is there now", "202": "It goes on", "204": "Done"},
    "DELETE": {"204": "It is gone", "200": "Done", "202": "It goes on behind the answer"},
}
REFUSALS: Final = {
    "400": "Something of the request is wrong",
    "401": "Who asks is not known, or may not have that",
    "403": "A page of another site may not change anything",
    "404": "What the path names is not there, or not to be seen",
    "406": "No JSON is accepted",
    "408": "The body did not come in time",
    "412": "What is protected is not deleted",
    "501": "This node cannot tell",
    "503": "It cannot be now: a check failed, or there is no majority",
}


def reachable(handler: Any) -> tuple[set[str], list[Operation[..., Any]]]:
    """The names that a handler, and what it calls of this package, uses; and the operations."""
    names: set[str] = set()
    found: list[Operation[..., Any]] = []
    # A method is another object at each look at it: it is told by its function and whose it is.
    # What was seen is kept, for its place in memory would be another thing's.
    seen: dict[tuple[int, int], Any] = {}
    waiting: list[Any] = [handler]
    while waiting:
        thing = waiting.pop()
        function, owner = getattr(thing, "__func__", thing), getattr(thing, "__self__", None)
        if (id(function), id(owner)) in seen:
            continue
        seen[id(function), id(owner)] = thing
        if isinstance(thing, Operation):
            found.append(thing)
            continue
        if isinstance(thing, partial):
            waiting += [thing.func, *thing.args]
            continue
        if not isinstance(function, FunctionType):
            continue
        used = used_names(function.__code__)
        names |= used
        waiting += [cell.cell_contents for cell in function.__closure__ or ()]
        waiting += [getattr(owner, name, None) for name in used] if owner is not None else []
        for name in used:
            value = function.__globals__.get(name)
            if isinstance(value, ModuleType):
                waiting += [
                    part
                    for part in (getattr(value, other, None) for other in used)
                    if isinstance(part, Operation)
                ]
            elif isinstance(value, Operation) or getattr(value, "__module__", "").startswith(
                "warren.admin.http"
            ):
                waiting.append(value)
    return names, found


def used_names(code: CodeType) -> set[str]:
    """The names that a code uses, with those of what stands within it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= used_names(constant)
    return found


def tags_for(operations: Iterable[Operation[..., Any]]) -> list[str]:
    """Tags of which a user needs one for all of some operations."""
    allowed = {*IMPLIED[MANAGEMENT], ADMINISTRATOR}
    for each in operations:
        allowed &= {*IMPLIED.get(each.tag, (each.tag,)), ADMINISTRATOR}
    return sorted(allowed)


def described(resource: Resource, method: str, handler: Callable[..., Any]) -> Schema:
    """What one method of a resource is."""
    names, operations = reachable(handler)
    variables = re.findall(r"\{(\w+)\}", resource.path)
    parameters: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": TEXT} for name in variables
    ]
    query: dict[str, Schema] = {}
    if method == "GET":
        for reader, fields in QUERIES.items():
            query |= fields if reader in names else {}
    parameters += [
        {"name": name, "in": "query", "schema": schema} for name, schema in query.items()
    ]
    answers = {
        status: {
            "description": text,
            **({"content": {"application/json": {"schema": {}}}} if status == "200" else {}),
        }
        for status, text in (ANSWERS[method] | REFUSALS).items()
    }
    found: Schema = {
        "operationId": f"{method.lower()} {resource.path}",
        "summary": (handler.__doc__ or resource.path).partition("\n")[0],
        "parameters": parameters,
        "responses": answers,
        "x-tags": FURTHER_TAGS.get(f"{method} {resource.path}") or tags_for(operations),
    }
    schema = BODIES.get(f"{method} {resource.path}")
    if schema is not None:
        required = bool(schema.get("required"))
        found["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": schema}},
        }
    return found


def document(resources: Iterable[Resource]) -> Schema:
    """The description of all resources."""
    paths: dict[str, Schema] = {}
    for resource in resources:
        methods = {
            method.lower(): described(resource, method, handler)
            for method, handler in resource.methods.items()
            if method != "HEAD"
        }
        paths.setdefault(resource.path, {}).update(methods)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Warren's HTTP API",
            "version": __version__,
            "description": "RabbitMQ 4.3's management API. A user needs one of the tags in "
            "`x-tags`, and permissions in vhosts that are named.",
        },
        "security": [{"basic": []}, {"bearer": []}],
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            }
        },
        "paths": paths,
    }
