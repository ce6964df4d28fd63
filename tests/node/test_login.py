"""Who is let in: from where users may come, and passwords whose hash takes long."""

from __future__ import annotations

from base64 import b64encode
from functools import partial

import pytest

import warren
from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service import permissions, users
from warren.admin.service.caller import LOCAL
from warren.errors import Refusal
from warren.metadata.commands import SetPassword
from warren.metadata.passwords import ARGON2, argon2_hash, password_matches
from warren.node.logins import LoginCallback
from warren.node.wrong_passwords import (
    DELAY_MS_MAX,
    FREE,
    FULL,
    LINES_MAX,
    PACE_MS,
    WrongPasswords,
    line_of,
    network_of,
)
from warren.protocols.amqp091.connection import CLOSED, CLOSING, VERIFYING
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

AFAR = "10.0.0.7"


def test_guest_comes_from_this_machine_only_unless_told_otherwise() -> None:
    pair = Pair(1, alone=True)
    node = pair.a.node
    for here in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", ""):
        assert node.login("guest", "guest", here) is not None
    assert pair.a.warnings == []
    for afar in (AFAR, "::ffff:10.0.0.7", "fe80::1"):
        assert node.login("guest", "guest", afar) is None
        assert pair.a.warnings.pop() == (
            f"user 'guest' may connect from this machine only, not from {afar}, unless "
            "loopback_users.guest = false is set"
        )
    node.settings.loopback_users = []
    assert node.login("guest", "guest", AFAR) is not None
    assert node.login("guest", "wrong", AFAR) is None
    assert pair.a.warnings == []


def test_a_certificate_lets_in_who_is_a_user_and_comes_from_where_it_may() -> None:
    pair = Pair(1, alone=True)
    node = pair.a.node
    assert node.login_certified("guest", "127.0.0.1") is not None
    assert node.login_certified("CN=app", "127.0.0.1") is None
    assert node.login_certified("guest", AFAR) is None
    assert "loopback_users.guest = false" in pair.a.warnings.pop()
    node.settings.loopback_users = []
    login = node.login_certified("guest", AFAR)
    assert login is not None and (login.user, login.host) == ("guest", AFAR)


# --- hashes that take long ----------------------------------------------------------------------


@pytest.fixture
def pair() -> Pair:
    """A node with a user `app`, whose password is `secret`, as operators make it."""
    pair = Pair(1, alone=True)
    service = service_of(pair)
    made = answered(pair, lambda: users.add_user(service, LOCAL, name="app", password="secret"))
    assert made is None
    given = {"user": "app", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    answered(pair, lambda: permissions.set_permissions(service, LOCAL, **given))
    assert pair.a.node.metadata.users["app"].hash_scheme == ARGON2
    return pair


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Passwords whose hashes are computed from now on."""
    seen: list[bytes] = []

    def compare(password: bytes, password_hash: bytes, scheme: str) -> bool:
        seen.append(password)
        return password_matches(password, password_hash, scheme)

    monkeypatch.setattr("warren.node.logins.password_matches", compare)
    monkeypatch.setattr("warren.metadata.passwords.password_matches", compare)
    return seen


@pytest.mark.skipif(warren.COMPILED, reason="replaces functions of the node")
def test_one_password_is_looked_at_once_however_many_come_with_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = counted(monkeypatch)
    callers = [pair.a.caller(user="app", password="secret") for _ in range(50)]
    pair.until(lambda: all(caller.opened for caller in callers))
    assert seen == [b"secret"]
    assert pair.a.client(user="app", password="secret").opened
    assert seen == [b"secret"]


def test_the_loop_goes_on_while_a_password_is_checked(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are served, and what the client sends before it is let in is not lost."""
    pair.a.hold_disk = True
    caller = pair.a.caller(user="app", password="secret")
    # It says all that it has to say at once, and waits for no answer.
    monkeypatch.setattr(caller, "_frame", lambda: None)
    caller.outbox += b"".join(
        method_frame(number, method.encode())
        for number, method in (
            (0, spec.ConnectionStartOk({}, "PLAIN", caller.login, "en_US")),
            (0, spec.ConnectionTuneOk(2_047, 131_072, 0)),
            (0, spec.ConnectionOpen("/")),
            (1, spec.ChannelOpen()),
        )
    )
    other = pair.a.client()
    assert other.opened and caller.end.state == VERIFYING
    pair.a.hold_disk = False
    pair.until(lambda: len(caller.end.channels) == 1)


@pytest.mark.parametrize("user", ["app", "nobody"])
def test_who_is_refused_hears_so_when_the_password_was_checked(pair: Pair, user: str) -> None:
    """Whether there is such a user cannot be told by how it goes."""
    pair.a.hold_disk = True
    caller = pair.a.caller(user=user, password="wrong")
    pair.until(lambda: caller.end.state == VERIFYING)
    pair.a.hold_disk = False
    pair.until(lambda: caller.end.state >= CLOSING)
    assert f"login refused for user '{user}'" in "".join(pair.a.warnings)


@pytest.mark.skipif(warren.COMPILED, reason="replaces functions of the node")
def test_a_flood_of_passwords_is_not_looked_at_when_nobody_waits_any_more(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = counted(monkeypatch)
    pair.a.hold_disk = True
    callers = [pair.a.caller(user="app", password=f"{number}") for number in range(20)]
    pair.until(lambda: all(caller.end.state == VERIFYING for caller in callers))
    for caller in callers:
        caller.vanish()
    pair.a.node._logins.patience_ms = -1
    pair.a.hold_disk = False
    pair.settle()
    assert seen == []
    pair.a.node._logins.patience_ms = 10_000
    assert pair.a.client(user="app", password="secret").opened


@pytest.mark.skipif(warren.COMPILED, reason="replaces functions of the node")
def test_who_tries_many_passwords_keeps_nobody_else_waiting(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each address has one of its passwords looked at in turn."""
    seen = counted(monkeypatch)
    logins = pair.a.node._logins
    told: list[str] = []
    pair.a.hold_disk = True
    for host, count in (("10.0.0.1", 20), ("10.0.0.2", 3), ("2001:db8::1", 1), ("2001:db8::2", 1)):
        for number in range(count):
            name = f"{host} {number}"
            listener = LoginCallback(partial(told.append, name))
            assert logins.wait("app", name.encode(), host, listener)
    listener = LoginCallback(partial(told.append, "right"))
    assert logins.wait("app", b"secret", "10.0.0.3", listener)
    pair.a.hold_disk = False
    pair.until(lambda: len(told) == 26)
    order = [password.decode() for password in seen]
    assert order.index("secret") < 6
    assert order.index("10.0.0.2 2") < 12
    assert order[-1] == "10.0.0.1 19"
    # Two addresses of one network of IPv6 are one stranger.
    assert order.index("2001:db8::2 0") > order.index("10.0.0.1 1")
    assert not logins.wait("app", b"secret", "10.0.0.3", listener)


@pytest.mark.parametrize("user", ["app", "guest", "nobody"])
def test_answers_to_wrong_passwords_go_out_at_a_pace(pair: Pair, user: str) -> None:
    """However many connections ask at once; other users wait for none of them."""
    began = pair.clock.monotonic_ms()
    callers = [pair.a.caller(user=user, password=f"wrong {number}") for number in range(20)]

    def refused() -> int:
        return sum(caller.end.state >= CLOSING for caller in callers)

    pair.until(lambda: refused() >= FREE)
    at_once = pair.clock.monotonic_ms()
    assert at_once - began < PACE_MS * FREE
    assert refused() < 20
    if user == "guest":
        assert pair.a.client(user="app", password="secret").opened
    pair.until(lambda: refused() == 20)
    took = pair.clock.monotonic_ms() - began
    assert took >= PACE_MS * FREE, "ten are free, and the others have their pace"
    assert took < DELAY_MS_MAX


@pytest.mark.parametrize(("user", "password"), [("app", "secret"), ("guest", "guest")])
def test_silence_does_not_say_that_a_password_is_wrong(
    pair: Pair, user: str, password: str
) -> None:
    """While answers to wrong ones wait, the right one is answered no earlier, and let in then."""
    assert pair.a.client(user=user, password=password).opened
    for number in range(FREE + 15):
        pair.a.caller(user=user, password=f"wrong {number}")
    logins = pair.a.node._logins
    pair.until(lambda: len(logins._waiting) >= 5)
    began = pair.clock.monotonic_ms()
    right = pair.a.caller(user=user, password=password)
    further = [pair.a.caller(user=user, password=password) for _ in range(50)]
    wrong = pair.a.caller(user=user, password="wrong, too")
    pair.until(lambda: right.opened or wrong.end.state >= CLOSING)
    assert pair.clock.monotonic_ms() - began >= PACE_MS
    # A good client takes no place, so that all of them are let in together.
    pair.until(lambda: all(caller.opened for caller in [right, *further]))
    assert pair.clock.monotonic_ms() - began < DELAY_MS_MAX
    pair.until(lambda: wrong.end.state >= CLOSING)


@pytest.mark.skipif(warren.COMPILED, reason="replaces functions of the node")
def test_a_password_that_has_no_place_in_line_is_not_looked_at(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many connections guess at once, no more passwords are tried than the pace allows."""
    seen = counted(monkeypatch)
    places = FREE + DELAY_MS_MAX // PACE_MS
    callers = [pair.a.caller(password=f"wrong {number}") for number in range(3 * places)]
    right = pair.a.caller()
    pair.until(lambda: all(caller.end.state >= CLOSING for caller in [*callers, right]))
    assert b"guest" not in seen
    assert len(set(seen)) <= places + DELAY_MS_MAX // PACE_MS
    assert any("too many wrong passwords" in text for text in pair.a.warnings)
    # Soon after the guesses the user is let in again.
    pair.settle(DELAY_MS_MAX)
    assert pair.a.client().opened


def test_a_stranger_who_leaves_while_the_answer_waits(pair: Pair) -> None:
    callers = [pair.a.caller(password=f"wrong {number}") for number in range(20)]
    pair.until(lambda: sum(caller.end.state == VERIFYING for caller in callers) > 5)
    for caller in callers:
        caller.vanish()
    pair.settle(PACE_MS)
    assert not pair.a.node.connections
    assert pair.a.client().opened


def test_no_answer_waits_for_longer_than_a_client_does() -> None:
    wrong = WrongPasswords()
    line = line_of("10.0.0.1", "app")
    delays = [wrong.delay_ms(line, False, 1_000_000) for _ in range(1_000)]
    assert delays[:FREE] == [0] * FREE
    assert delays[FREE : FREE + 3] == [PACE_MS, 2 * PACE_MS, 3 * PACE_MS]
    assert max(delays) == DELAY_MS_MAX
    assert delays[-1] == FULL and delays.count(FULL) == 1_000 - FREE - DELAY_MS_MAX // PACE_MS
    assert wrong.is_full(line, 1_000_000) and wrong.delay_ms(line, True, 1_000_000) == FULL
    assert wrong.delay_ms(line_of("10.0.0.2", "app"), False, 1_000_000) == 0
    assert wrong.delay_ms(line_of("10.0.0.1", "guest"), False, 1_000_000) == 0
    # A right one waits as a wrong one does, and takes no place.
    soon = 1_000_000 + PACE_MS
    assert [wrong.delay_ms(line, True, soon) for _ in range(3)] == [DELAY_MS_MAX] * 3
    assert wrong.delay_ms(line, False, soon) == DELAY_MS_MAX
    # After a while all is forgotten.
    later = soon + DELAY_MS_MAX + FREE * PACE_MS
    assert [wrong.delay_ms(line, False, later) for _ in range(FREE)] == [0] * FREE


def test_made_up_users_do_not_push_out_the_lines_of_other_addresses() -> None:
    wrong = WrongPasswords()
    for _ in range(FREE):
        wrong.delay_ms(line_of("10.0.0.1", "app"), False, 1_000_000)
    for number in range(LINES_MAX + 1):
        wrong.delay_ms(line_of("10.0.0.2", f"user {number}"), False, 1_000_000)
    assert wrong.delay_ms(line_of("10.0.0.1", "app"), False, 1_000_000) > 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("[2001:db8::1]", "2001:db8::2", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("no:address", "no:other", False),
        ("", "", True),
    ],
)
def test_one_stranger_has_many_addresses(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


def test_a_client_that_leaves_while_its_password_is_checked(pair: Pair) -> None:
    pair.a.hold_disk = True
    caller = pair.a.caller(user="app", password="secret")
    pair.until(lambda: caller.end.state == VERIFYING)
    caller.vanish()
    pair.a.hold_disk = False
    pair.settle()
    assert caller.end.state == CLOSED and not pair.a.node.connections
    assert pair.a.client(user="app", password="secret").opened


def test_a_password_that_is_changed_while_the_old_one_is_checked(pair: Pair) -> None:
    pair.a.hold_disk = True
    caller = pair.a.caller(user="app", password="secret")
    pair.until(lambda: caller.end.state == VERIFYING)
    salt = b"another salt...."
    command = SetPassword("app", argon2_hash(b"other", salt), ARGON2)
    pair.a.node.store.submit(command, None)
    pair.a.hold_disk = False
    pair.until(lambda: pair.a.node.metadata.users["app"].password_hash == command.password_hash)
    pair.until(lambda: caller.end.state == CLOSED or caller.end.state == CLOSING or caller.opened)
    assert not caller.opened or pair.a.client(user="app", password="other").opened
    late = pair.a.caller(user="app", password="secret")
    pair.until(lambda: late.end.state >= CLOSING)
    assert not late.opened


@pytest.mark.parametrize(
    "text",
    [
        "secret",
        "$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
        "$argon2id$v=19$m=19456,t=99,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
        "$argon2i$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$" + "A" * 43,
    ],
    ids=["no hash", "memory", "passes", "another algorithm"],
)
def test_a_hash_that_logins_could_not_bear_is_refused(pair: Pair, text: str) -> None:
    hashed = b64encode(text.encode()).decode()
    words = {"name": "late", "password_hash": hashed, "hashing_algorithm": ARGON2}
    with pytest.raises(Refusal, match="no Argon2id hash"):
        answered(pair, lambda: users.add_user(service_of(pair), LOCAL, **words))
    # Nor does a node compute it that has it all the same.
    assert not password_matches(b"secret", text.encode(), ARGON2)
