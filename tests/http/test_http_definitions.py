"""Definitions as a request brings them: who may, and what is no definitions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import msgspec
import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.http.answers import HttpAnswer
from warren.admin.http.asked import Handler, HttpRequest
from warren.admin.http.errors import Problem
from warren.admin.http.resources import definitions
from warren.admin.service.caller import LOCAL, Caller, NotAuthorised
from warren.admin.service.definition_items import KINDS, SHAPES

FORM = "multipart/form-data; boundary=xx"
FORM_QUOTED = 'Multipart/Form-Data; charset=utf-8; boundary="xx"'
HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
MANAGER = Caller("m", frozenset({"management"}))


@pytest.fixture
def pair() -> Pair:
    return Pair(alone=True)


def loaded(
    pair: Pair,
    body: bytes,
    caller: Caller = LOCAL,
    vhost: str = "",
    content_type: str = "application/json",
) -> HttpAnswer:
    headers = {"content-type": content_type}
    request = HttpRequest(service_of(pair), caller, {"vhost": vhost}, {}, headers, body)

    async def ask() -> HttpAnswer:
        return await (definitions.load_vhost if vhost else definitions.load)(request)

    return answered(pair, ask)


@pytest.mark.parametrize("vhost", ["", "/"])
def test_who_may_not_import_has_nothing_decoded(pair: Pair, vhost: str) -> None:
    """They are refused before anything is said of what they sent, which is no JSON here."""
    with pytest.raises(NotAuthorised):
        loaded(pair, b"{", MANAGER, vhost)
    with pytest.raises(Problem) as wrong:
        loaded(pair, b"{", LOCAL, vhost)
    assert wrong.value.answer.status == 400


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [{"a": {}}, {}, "text", "", 5, 0, False])
def test_a_kind_of_things_is_a_list(pair: Pair, kind: str, value: Any) -> None:
    with pytest.raises(Problem) as wrong:
        loaded(pair, json.dumps({kind: value}).encode())
    assert wrong.value.answer.status == 400
    assert wrong.value.answer.body["reason"] == f"{kind} of the definitions: a list is expected"


@pytest.mark.parametrize(
    "body",
    [
        b'{"queues":[{"name":"q","arguments":{"x":[' + b"[]," * 400_000 + b"[]]}}]}",
        b'{"other":[' + b"[]," * 400_000 + b"[]]}",
        b'{"global_parameters":[{"name":"a"},{"name":"' + b"n" * 300_000 + b'"}]}',
        b"{" + b'"other":1,' * 40_000 + b'"other":1}',
    ],
)
def test_little_is_decoded_in_one_go(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    """A decoder keeps all clients waiting until it is through, also in a thread of its own."""
    sizes: list[int] = []
    decode = msgspec.json.decode

    def counted(text: bytes, **options: Any) -> Any:
        sizes.append(len(text))
        return decode(text, **options)

    monkeypatch.setattr(msgspec.json, "decode", counted)
    with contextlib.suppress(Problem):
        asyncio.run(definitions.decoded(body))
    assert max(sizes, default=0) <= 262_144
    assert len(sizes) <= 1_000


def test_an_item_that_is_too_large_is_refused(pair: Pair) -> None:
    long = b"n" * (262_144 + 1)
    with pytest.raises(Problem) as wrong:
        loaded(pair, b'{"queues":[{"name":"q"},{"name":"' + long + b'"}]}')
    assert wrong.value.answer.status == 400
    reason = "queues of the definitions: an item has more than 262144 bytes"
    assert wrong.value.answer.body["reason"] == reason


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b"1", b'"', b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,}', b"{}}", b'{"a" 1}'),
        *(b'{"queues":[', b'{"queues":[{}', b'{"queues":[{},]}', b'{"queues":[{} {}]}', b"{1:2}"),
        *(b'{"queues":[{]]}', b'{"other":[}', b'{"a":1 "b":2}', b"{} 1", b"{,}", b'{"queues":[,]}'),
    ],
)
def test_what_is_no_json_is_refused(pair: Pair, body: bytes) -> None:
    with pytest.raises(Problem) as wrong:
        loaded(pair, body)
    assert wrong.value.answer.body["reason"] == "failed_to_parse_json"


def test_what_is_no_kind_of_things_is_passed_over(pair: Pair) -> None:
    given = {"rabbit_version": "4.3.0", "metadata": {"tags": []}, "users": None, "queues": []}
    indented = json.dumps({**given, "vhosts": [{"name": "v"}]}, indent=4).encode()
    assert loaded(pair, indented).status == 204
    assert "v" in service_of(pair).machine.vhosts


def test_all_kinds_are_read() -> None:
    assert set(SHAPES) == set(KINDS)


def test_who_imports_a_new_vhost_may_do_everything_in_it(pair: Pair) -> None:
    """As RabbitMQ 4.3.6 has it; what the definitions say of that user counts all the same."""
    own = {"user": "guest", "configure": "", "write": "", "read": "^r"}
    given = {
        "vhosts": [{"name": "new"}, {"name": "said"}, {"name": "/"}],
        "permissions": [{"vhost": "said", **own}, {"vhost": "/", **own}],
    }
    guest = Caller("guest", frozenset({"administrator"}))
    assert loaded(pair, json.dumps(given).encode(), guest).status == 204
    assert loaded(pair, b'{"vhosts": [{"name": "/"}, {"name": "said"}]}', guest).status == 204
    assert loaded(pair, b'{"vhosts": [{"name": "of a command"}]}').status == 204
    vhosts = service_of(pair).machine.vhosts
    found = {name: tables.permissions.get("guest") for name, tables in vhosts.items()}
    shown = {name: right and (right.configure, right.read) for name, right in found.items()}
    assert shown == {
        "/": ("", "^r"), "new": (".*", ".*"), "said": ("", "^r"), "of a command": None,
    }  # fmt: skip


def form(name: str, content: bytes) -> bytes:
    """A form with one file, as `curl -F` sends it."""
    head = f'Content-Disposition: form-data; name="{name}"; filename="d.json"\r\n'
    return b"".join(
        [
            b"--xx\r\n",
            head.encode(),
            b"Content-Type: application/octet-stream\r\n\r\n",
            content,
            b"\r\n--xx--\r\n",
        ]
    )


TWENTY = form("a", b"").replace(b"xx--", b"xx") * 20


@pytest.mark.parametrize("content_type", ["multipart/form-data; boundary=xx", FORM_QUOTED])
def test_a_file_of_a_form_is_imported(pair: Pair, content_type: str) -> None:
    body = form("file", b'{"vhosts": [{"name": "v"}]}')
    assert loaded(pair, body, content_type=content_type).status == 204
    assert "v" in service_of(pair).machine.vhosts


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (form("other", b"{}"), FORM, "the form has no part 'file' with definitions"),
        (form("file", b"{"), FORM, "failed_to_parse_json"),
        (b"{}", FORM, "the form has no part 'file' with definitions"),
        (b"{}", "multipart/form-data", "the form has too many parts, or is broken"),
        (TWENTY, FORM, "the form has too many parts, or is broken"),
    ],
)
def test_forms_without_definitions_are_refused(
    pair: Pair, body: bytes, content_type: str, reason: str
) -> None:
    with pytest.raises(Problem) as wrong:
        loaded(pair, body, content_type=content_type)
    assert (wrong.value.answer.status, wrong.value.answer.body["reason"]) == (400, reason)


def test_a_mark_of_byte_order_is_passed_over(pair: Pair) -> None:
    assert loaded(pair, b'\xef\xbb\xbf{"vhosts": [{"name": "v"}]}').status == 204
    assert "v" in service_of(pair).machine.vhosts
    assert loaded(pair, b"\xef\xbb\xbf").status == 204


def test_a_vhost_that_is_not_there_is_not_found(pair: Pair) -> None:
    with pytest.raises(Problem) as wrong:
        loaded(pair, b"{}", vhost="none")
    assert wrong.value.answer.status == 404
    assert wrong.value.answer.body == {"error": "not_found", "reason": "vhost_not_found"}


def test_the_release_that_wrote_definitions_is_read(pair: Pair) -> None:
    """It says how hashes were made that say nothing themselves."""
    user = {"name": "u", "password_hash": HASH, "tags": []}
    loaded(pair, json.dumps({"rabbit_version": "3.5.0", "users": [user]}).encode())
    assert service_of(pair).machine.users["u"].hash_scheme == "rabbit_password_hashing_md5"


def test_what_an_import_leaves_out_is_in_the_log(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"queues": [{"name": "amq.gen-x", "vhost": "/"}]}
    assert loaded(pair, json.dumps(given).encode()).status == 204
    assert "left out: queue 'amq.gen-x' in vhost '/'" in caplog.text


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("x.json", "attachment; filename=x.json"),
        ("rabbit_h-2026.json", "attachment; filename=rabbit_h-2026.json"),
        ("a b", None),
        ("", None),
        ('"x', None),
        ("a\r\nset-cookie: b", None),
    ],
)
@pytest.mark.parametrize("handler", [definitions.export, definitions.export_vhost])
def test_an_export_is_saved_as_a_file(
    pair: Pair, name: str, header: str | None, handler: Handler
) -> None:
    request = HttpRequest(service_of(pair), LOCAL, {"vhost": "/"}, {"download": name}, {}, b"")

    async def ask() -> HttpAnswer:
        return await handler(request)

    if header is None:
        with pytest.raises(Problem) as wrong:
            answered(pair, ask)
        assert wrong.value.answer.status == 400
    else:
        assert answered(pair, ask).headers["content-disposition"] == header
