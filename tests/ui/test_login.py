"""Who sees pages: logging in, sessions, forms of other sites, and what browsers are told."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.support.patience import patient
from tests.ui.rest import Rest

FORM = {"content-type": "application/x-www-form-urlencoded"}


def log_in(rest: Rest, user: str = "guest", password: str = "guest", to: str = "/") -> Any:
    body = urlencode({"username": user, "password": password})
    return rest.plain("POST", f"/login?to={quote(to, safe='')}", body, FORM)


def session(rest: Rest, user: str = "guest", password: str = "guest") -> dict[str, str]:
    """Headers of a browser that is logged in."""
    status, headers, _ = log_in(rest, user, password)
    assert status == 303
    return {"cookie": headers["set-cookie"].partition(";")[0]}


def token(rest: Rest, cookie: dict[str, str]) -> str:
    """What forms of a session say."""
    _, _, text = rest.plain("GET", "/queues", headers=cookie)
    found = re.search(r'name="token" value="([^"]+)"', text)
    assert found
    return found[1]


def test_pages_are_seen_by_those_who_log_in(visits: Callable[..., Any]) -> None:
    with visits() as visit:
        visit.go("/queues?name=a")
        assert visit.page.url == f"{visit.base}/login?to=%2Fqueues%3Fname%3Da"
        visit.page.fill("#username", "guest")
        visit.page.fill("#password", "wrong")
        visit.page.click("button")
        assert "do not fit" in visit.page.locator("[role=alert]").inner_text()
        visit.page.fill("#password", "guest")
        visit.page.click("button")
        visit.page.wait_for_url(f"{visit.base}/queues?name=a")
        visit.page.click("text=Log out")
        visit.page.wait_for_url(f"{visit.base}/login")
        visit.go("/")
        assert "/login" in visit.page.url


def test_a_cookie_is_for_this_browser_and_this_site(rest: Rest) -> None:
    _, headers, _ = log_in(rest)
    cookie = headers["set-cookie"]
    name, _, value = cookie.partition(";")[0].partition("=")
    assert name == f"warren-session-{rest.port}"
    assert len(value) >= 43
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert log_in(rest)[1]["set-cookie"] != cookie


@pytest.mark.parametrize(
    "to",
    [
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "evil",
        "/a\r\nx: y",
        "//[evil",
    ],
)
def test_a_login_leads_to_no_other_site(rest: Rest, to: str) -> None:
    status, headers, _ = log_in(rest, to=to)
    assert (status, headers["location"]) == (303, "/")


def test_a_session_ends_with_the_password_and_the_user(rest: Rest) -> None:
    rest.ask("PUT", "users", "u.session", body={"password": "a", "tags": "administrator"})
    cookie = session(rest, "u.session", "a")
    assert rest.plain("GET", "/", headers=cookie)[0] == 200
    rest.ask("PUT", "users", "u.session", body={"password": "b", "tags": "administrator"})
    assert rest.plain("GET", "/", headers=cookie)[0] == 303
    cookie = session(rest, "u.session", "b")
    rest.ask("DELETE", "users", "u.session")
    assert rest.plain("GET", "/", headers=cookie)[0] == 303


def test_tags_count_at_once_and_say_what_is_shown(rest: Rest) -> None:
    rest.ask("PUT", "users", "u.tags", body={"password": "a", "tags": "administrator"})
    cookie = session(rest, "u.tags", "a")
    assert rest.plain("GET", "/users", headers=cookie)[0] == 200
    before = rest.ask("GET", "users", "u.tags")
    hashed = {name: before[name] for name in ("password_hash", "hashing_algorithm")}
    rest.ask("PUT", "users", "u.tags", body={**hashed, "tags": "management"})
    assert rest.plain("GET", "/users", headers=cookie)[0] == 403
    status, _, text = rest.plain("GET", "/", headers=cookie)
    assert status == 200 and "/users" not in text and "/nodes" not in text
    rest.ask("PUT", "users", "u.tags", body={**hashed, "tags": ""})
    assert rest.plain("GET", "/", headers=cookie)[0] == 403
    assert log_in(rest, "u.tags", "a")[0] == 403
    rest.ask("DELETE", "users", "u.tags")


def test_forms_of_other_sites_and_sessions_do_nothing(rest: Rest) -> None:
    cookie, other = session(rest), session(rest)
    own = {"do": "create", "name": "u.forged", "token": token(rest, cookie)}
    forged = [
        ({}, {**own, "token": ""}),
        ({}, {**own, "token": token(rest, other)}),
        ({"origin": "http://evil.example"}, own),
        ({"sec-fetch-site": "cross-site"}, own),
        ({"origin": "null"}, own),
        ({"origin": "http://[evil"}, own),
    ]
    for headers, fields in forged:
        status, _, _ = rest.plain(
            "POST", "/vhosts", urlencode(fields), {**FORM, **cookie, **headers}
        )
        assert status == 403, (headers, fields)
    assert rest.ask("GET", "vhosts", "u.forged") is None
    status, _, _ = rest.plain("POST", "/vhosts", urlencode(own), {**FORM, **cookie})
    assert status == 303
    rest.ask("DELETE", "vhosts", "u.forged")
    body = urlencode({"username": "guest", "password": "guest"})
    status, headers, _ = rest.plain(
        "POST", "/login", body, {**FORM, "origin": "http://evil.example"}
    )
    assert status == 403 and "set-cookie" not in headers


def test_browsers_are_told_to_run_nothing_else(rest: Rest) -> None:
    cookie = session(rest)
    for path in ("/", "/login", "/nothing-there", "/queues/%2F/none"):
        _, headers, text = rest.plain("GET", path, headers={"accept": "text/html", **cookie})
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", text)


def test_files_are_kept_by_browsers_and_are_only_ours(rest: Rest) -> None:
    status, headers, _ = rest.plain("GET", "/static/warren.css")
    assert status == 200 and headers["content-type"].startswith("text/css")
    assert "immutable" in headers["cache-control"]
    for path in ("/static/..%2f__init__.py", "/static/../sessions.py", "/static/", "/static/x"):
        assert rest.plain("GET", path)[0] in (303, 404), path


def test_large_and_odd_forms_are_refused(rest: Rest) -> None:
    cookie = session(rest)
    many = "&".join(f"a{number}=" for number in range(3_000))
    assert rest.plain("POST", "/vhosts", many, {**FORM, **cookie})[0] == 400
    assert rest.plain("POST", "/vhosts", "a=" + "b" * 2_000_000, {**FORM, **cookie})[0] == 400
    assert rest.plain("POST", "/login", "a=" + "b" * 20_000, FORM)[0] == 400
    assert rest.plain("DELETE", "/queues", None, cookie)[0] == 405
    odd = {"content-type": "multipart/form-data; boundary=x", **cookie}
    assert rest.plain("POST", "/vhosts", "--x\r\nbroken", odd)[0] == 403


def test_files_are_for_those_who_may_import(rest: Rest) -> None:
    """Others are refused before theirs is read: here it never comes. They log out from there."""
    rest.ask("PUT", "users", "u.file", body={"password": "a", "tags": "management"})
    cookie = session(rest, "u.file", "a")
    upload = {"content-type": "multipart/form-data; boundary=x", **cookie}
    status, _, text = rest.plain(
        "POST", "/definitions", "", {**upload, "content-length": "20000000"}
    )
    assert status == 403 and "import_definitions" in text
    assert rest.plain("POST", "/definitions", "a=" + "b" * 2_000_000, {**FORM, **cookie})[0] == 400
    out = urlencode({"do": "log-out", "token": token(rest, cookie)})
    assert rest.plain("POST", "/definitions", out, {**FORM, **cookie})[0] == 303
    rest.ask("DELETE", "users", "u.file")


def test_cookies_are_read_at_once_whatever_is_in_them(rest: Rest) -> None:
    """Anybody can send them; what is in quotes once took 16 s of all clients' time."""
    cookie = session(rest)["cookie"]
    began = time.monotonic()
    odd = 'a="' + "\\" * 60_000 + '"'
    assert rest.plain("GET", "/", headers={"cookie": odd})[0] == 303
    assert time.monotonic() - began < patient(5.0)
    for beside in (
        f'a="b"; {cookie}',
        f"a b=c;{cookie};d",
        f"=;; ;{cookie}",
        f"{cookie}x; {cookie}",
    ):
        assert rest.plain("GET", "/", headers={"cookie": beside})[0] == 200, beside
    assert rest.plain("GET", "/", headers={"cookie": f"{cookie}x"})[0] == 303
