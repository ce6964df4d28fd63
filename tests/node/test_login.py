"""Who is let in: from where users may come, and passwords whose hash takes long."""

from __future__ import annotations

import hashlib
import importlib
from base64 import b64encode
from functools import partial
from typing import Any

import pytest

import warren
from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service import permissions, users
from warren.admin.service.caller import LOCAL
from warren.errors import Refusal
from warren.metadata import commands
from warren.metadata.commands import SetPassword
from warren.metadata.passwords import (
    ARGON2,
    MD5,
    SHA256,
    SHA512,
    argon2_hash,
    is_renewable,
    password_matches,
)
from warren.node.login_turns import (
    FREE,
    LINES_OF_NETWORK,
    NETWORKS_MAX,
    PACE_MS,
    WAIT_MS_MAX,
    LoginTurns,
    Turn,
    is_late,
    line_of,
    network_of,
)
from warren.node.logins import LoginCallback
from warren.protocols.amqp091.connection import CLOSED, CLOSING, VERIFYING
from warren.protocols.broker import Settings
from warren.versions import RENEWED_HASHES
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


def renewing(settings: Settings) -> None:
    """As servers have it."""
    settings.renews_hashes = True


@pytest.fixture
def pair() -> Pair:
    """A node with a user `app`, whose password is `secret`, as operators make it."""
    pair = Pair(1, alone=True, configure=renewing)
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
    assert pair.a.client().opened
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
    assert took < WAIT_MS_MAX


@pytest.mark.parametrize(("user", "password"), [("app", "secret"), ("guest", "guest")])
def test_silence_does_not_say_that_a_password_is_wrong(
    pair: Pair, user: str, password: str
) -> None:
    """While answers to wrong ones wait, the right one is answered no earlier, and let in then."""
    assert pair.a.client(user=user, password=password).opened
    guesses = [pair.a.caller(user=user, password=f"wrong {number}") for number in range(FREE + 15)]
    pair.until(lambda: sum(each.end.state >= CLOSING for each in guesses) >= FREE)
    assert pair.a.node._logins.waiting()
    began = pair.clock.monotonic_ms()
    right = pair.a.caller(user=user, password=password)
    further = [pair.a.caller(user=user, password=password) for _ in range(50)]
    wrong = pair.a.caller(user=user, password="wrong, too")
    pair.until(lambda: right.opened or wrong.end.state >= CLOSING)
    assert pair.clock.monotonic_ms() - began >= PACE_MS
    # A good client takes no place, so that all of them are let in together.
    pair.until(lambda: all(caller.opened for caller in [right, *further]))
    assert pair.clock.monotonic_ms() - began < WAIT_MS_MAX
    pair.until(lambda: wrong.end.state >= CLOSING)


@pytest.mark.skipif(warren.COMPILED, reason="replaces functions of the node")
def test_a_password_that_has_no_turn_in_time_is_not_looked_at(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many connections guess at once, no more passwords are tried than the pace allows."""
    seen = counted(monkeypatch)
    turns = FREE + WAIT_MS_MAX // PACE_MS
    callers = [pair.a.caller(password=f"wrong {number}") for number in range(3 * turns)]
    right = pair.a.caller()
    pair.until(lambda: all(caller.end.state >= CLOSING for caller in [*callers, right]))
    assert b"guest" not in seen
    assert len(set(seen)) <= turns + 1
    assert any("too many wrong passwords" in text for text in pair.a.warnings)
    # Soon after the guesses the user is let in again.
    assert pair.a.client().opened


# --- what a refusal costs -----------------------------------------------------------------------


HASHES = {
    SHA256: hashlib.sha256,
    SHA512: hashlib.sha512,
    MD5: hashlib.md5,
}


def imported(pair: Pair, scheme: str, password: bytes = b"secret") -> str:
    """A user whose hash comes from definitions of RabbitMQ, and who may enter the vhost."""
    hashed = b"salt" + HASHES[scheme](b"salt" + password).digest()
    name = f"of {scheme}"
    for command in (
        commands.SetUser(name, hashed, scheme, [], False),
        commands.SetPermissions(name, "/", ".*", ".*", ".*"),
    ):
        pair.a.node.store.submit(command, None)
    pair.until(lambda: name in pair.a.node.metadata.vhosts["/"].permissions)
    return name


def spent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each Argon2id hash that is computed from now on, by what for."""
    done: list[str] = []
    low = importlib.import_module("argon2.low_level")
    verify, make = low.verify_secret, low.hash_secret

    def verifying(*given: Any) -> bool:
        done.append("compared")
        return bool(verify(*given))

    def making(*given: Any) -> bytes:
        done.append("made")
        return bytes(make(*given))

    monkeypatch.setattr(low, "verify_secret", verifying)
    monkeypatch.setattr(low, "hash_secret", making)
    return done


def test_a_password_that_memory_was_lacking_for_is_not_taken_for_wrong(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at again, for the client that waits and for others."""
    low = importlib.import_module("argon2.low_level")
    wrong = importlib.import_module("argon2.exceptions").VerificationError
    verify, failed = low.verify_secret, []

    def verifying(*given: Any) -> bool:
        if len(failed) < 2:
            failed.append(given)
            raise wrong("Memory allocation error")
        return bool(verify(*given))

    monkeypatch.setattr(low, "verify_secret", verifying)
    caller = pair.a.caller(user="app", password="secret")
    pair.until(lambda: caller.opened)
    assert len(failed) == 2
    assert pair.a.client(user="app", password="secret").opened


@pytest.mark.parametrize("scheme", [SHA256, SHA512, MD5, ARGON2, "none", "unknown"])
def test_each_refusal_costs_one_slow_hash_whatever_user_was_named(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    user = "nobody"
    if scheme == ARGON2:
        user = "app"
    elif scheme == "none":
        user = "without"
        pair.a.node.store.submit(commands.SetUser(user, b"", SHA256, [], False), None)
        pair.until(lambda: user in pair.a.node.metadata.users)
    elif scheme in HASHES:
        user = imported(pair, scheme)
    done = spent(monkeypatch)
    for number in range(3):
        refused = pair.a.caller(user=user, password=f"wrong {number}")
        pair.until(lambda caller=refused: caller.end.state >= CLOSING)  # type: ignore[misc]
    assert done == ["compared"] * 3


@pytest.mark.parametrize("scheme", [SHA256, SHA512, MD5])
def test_a_hash_of_another_broker_is_made_anew_at_the_first_login(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    user = imported(pair, scheme)
    done = spent(monkeypatch)
    assert pair.a.client(user=user, password="secret").opened
    assert done == ["made"], "a right password costs as much as a wrong one"
    record = pair.a.node.metadata.users
    pair.until(lambda: record[user].hash_scheme == ARGON2)
    assert not is_renewable(record[user].password_hash, ARGON2)
    # It is the same password, which need not be looked at again.
    assert pair.a.client(user=user, password="secret").opened
    assert done == ["made"]
    wrong = pair.a.caller(user=user, password="wrong")
    pair.until(lambda: wrong.end.state >= CLOSING)
    assert done == ["made", "compared"]
    # What was renewed is in the log.
    renewed = record[user].password_hash
    pair.a.kill()
    pair.a.disk.restart()
    pair.a.start()
    pair.until(lambda: user in pair.a.node.metadata.users)
    assert pair.a.node.metadata.users[user].password_hash == renewed
    assert pair.a.client(user=user, password="secret").opened


def test_a_cluster_renews_a_hash_once() -> None:
    pair = Pair(1, configure=renewing)
    name = imported(pair, SHA256)
    stations = list(pair.stations.values())
    pair.until(lambda: all(name in each.node.metadata.users for each in stations))
    indexes = [each.node.metadata.applied_index for each in stations]
    callers = [each.caller(user=name, password="secret") for each in stations]
    pair.until(lambda: all(caller.opened for caller in callers))
    pair.settle()
    hashes = {each.node.metadata.users[name].password_hash for each in stations}
    assert len(hashes) == 1 and not is_renewable(hashes.pop(), ARGON2)
    later = [each.node.metadata.applied_index for each in stations]
    for station in stations:
        assert station.client(user=name, password="secret").opened
    pair.settle()
    assert indexes < later == [each.node.metadata.applied_index for each in stations]


def test_a_password_that_is_changed_while_its_hash_is_renewed_stays_changed(pair: Pair) -> None:
    name = imported(pair, SHA256)
    former = pair.a.node.metadata.users[name].password_hash
    changed = SetPassword(name, b"salt" + hashlib.sha256(b"saltother").digest(), SHA256)
    late = commands.RenewHash(name, former, argon2_hash(b"secret", b"s" * 16), ARGON2)
    for command in (changed, late):
        pair.a.node.store.submit(command, None)
    pair.settle()
    assert pair.a.node.metadata.users[name].password_hash == changed.password_hash
    refused = pair.a.caller(user=name, password="secret")
    pair.until(lambda: refused.end.state >= CLOSING)
    assert pair.a.client(user=name, password="other").opened


def test_nodes_of_older_releases_are_spared_renewed_hashes(pair: Pair) -> None:
    name = imported(pair, SHA256)
    pair.a.node.metadata.version = RENEWED_HASHES - 1
    assert pair.a.client(user=name, password="secret").opened
    pair.settle()
    assert pair.a.node.metadata.users[name].hash_scheme == SHA256


def test_a_stranger_who_leaves_while_the_answer_waits(pair: Pair) -> None:
    callers = [pair.a.caller(password=f"wrong {number}") for number in range(20)]
    pair.until(lambda: sum(caller.end.state == VERIFYING for caller in callers) > 5)
    for caller in callers:
        caller.vanish()
    pair.settle(PACE_MS)
    assert not pair.a.node.connections
    assert pair.a.client().opened


def looked_at(turns: LoginTurns, network: str, users: list[str], ms: int) -> list[str]:
    """Users whose wrong passwords were looked at, of those who guess as fast as they can."""
    found: list[str] = []
    now_ms = 1_000_000
    waiting = dict.fromkeys(users, 0)
    while now_ms < 1_000_000 + ms:
        due = list(turns.due(now_ms, 1_000))
        for user in users:
            while waiting[user] < 30:
                turn = NamedTurn(network, user, now_ms)
                waiting[user] += 1
                if turns.ask(turn, now_ms):
                    due.append(turn)
        for turn in due:
            assert isinstance(turn, NamedTurn)
            waiting[turn.user] -= 1
            if not is_late(turn, now_ms):
                found.append(turn.user)
                turns.over(turn, True, now_ms)
        now_ms += 50
    return found


class NamedTurn(Turn):
    """A turn of a user."""

    def __init__(self, network: str, user: str, asked_ms: int) -> None:
        super().__init__(network, line_of(user), asked_ms)
        self.user = user


def in_lines_of_their_own(count: int) -> list[str]:
    """Users who share no line."""
    found: dict[int, str] = {}
    for number in range(1_000):
        found.setdefault(line_of(f"user {number}"), f"user {number}")
    return list(found.values())[:count]


@pytest.mark.parametrize("count", [1, 2, LINES_OF_NETWORK])
def test_one_address_tries_five_passwords_a_second_whatever_their_users(count: int) -> None:
    users = in_lines_of_their_own(count)
    found = looked_at(LoginTurns(), "10.0.0.1", users, 20_000)
    assert FREE + 20_000 // PACE_MS - 2 <= len(found) <= FREE + 20_000 // PACE_MS
    # Users have turns one after the other.
    for user in users:
        assert abs(found[FREE:].count(user) - 20_000 / PACE_MS / count) <= FREE


def test_made_up_users_bring_no_further_turns() -> None:
    users = [f"user {number}" for number in range(400)]
    found = looked_at(LoginTurns(), "10.0.0.1", users, 5_000)
    assert len(found) <= FREE + 5_000 // PACE_MS


def test_right_passwords_use_no_turns_up() -> None:
    turns = LoginTurns()
    now_ms = 1_000_000
    for number in range(1_000):
        turn = NamedTurn("10.0.0.1", f"user {number}", now_ms)
        assert turns.ask(turn, now_ms)
        turns.over(turn, False, now_ms)
    assert not turns._networks, "there is nothing to remember"


def test_who_guesses_one_user_delays_others_of_the_address_hardly() -> None:
    """Their passwords come next but one at most."""
    turns = LoginTurns()
    guesser, good = in_lines_of_their_own(2)
    now_ms = 1_000_000
    for _ in range(FREE):
        turn = NamedTurn("10.0.0.1", guesser, now_ms)
        assert turns.ask(turn, now_ms)
        turns.over(turn, True, now_ms)
    for _ in range(500):
        assert not turns.ask(NamedTurn("10.0.0.1", guesser, now_ms), now_ms)
    came = NamedTurn("10.0.0.1", good, now_ms)
    assert not turns.ask(came, now_ms), "silence says nothing: right ones wait, too"
    seen: list[Turn] = []
    while came not in seen:
        now_ms += PACE_MS
        for turn in turns.due(now_ms, 1_000):
            seen.append(turn)
            turns.over(turn, turn is not came, now_ms)
    assert now_ms <= 1_000_000 + 2 * PACE_MS
    # Other addresses wait for none of that.
    assert turns.ask(NamedTurn("10.0.0.2", guesser, now_ms), now_ms)


def test_no_password_waits_for_longer_than_its_client() -> None:
    turns = LoginTurns()
    now_ms = 1_000_000
    asked = [NamedTurn("10.0.0.1", "app", now_ms) for _ in range(1_000)]
    given = [turn for turn in asked if turns.ask(turn, now_ms)]
    assert len(given) == FREE
    for turn in given:
        turns.over(turn, True, now_ms)
    late = 0
    while turns.waits():
        now_ms += 50
        for turn in turns.due(now_ms, 1_000):
            late += is_late(turn, now_ms)
            if not is_late(turn, now_ms):
                given.append(turn)
                turns.over(turn, True, now_ms)
    assert now_ms <= 1_000_000 + WAIT_MS_MAX + 50
    assert len(given) == FREE + WAIT_MS_MAX // PACE_MS and late == 1_000 - len(given)
    # After a while all is forgotten.
    now_ms += FREE * PACE_MS
    turn = NamedTurn("10.0.0.1", "app", now_ms)
    assert turns.ask(turn, now_ms)
    turns.over(turn, False, now_ms)
    assert not turns._networks


def test_strangers_of_many_addresses_do_not_have_the_others_forgotten() -> None:
    turns = LoginTurns()
    now_ms = 1_000_000
    for _ in range(FREE):
        turn = NamedTurn("10.0.0.1", "app", now_ms)
        assert turns.ask(turn, now_ms)
        turns.over(turn, True, now_ms)
    for number in range(NETWORKS_MAX + 1):
        turn = NamedTurn(f"other {number}", "app", now_ms)
        assert turns.ask(turn, now_ms)
        turns.over(turn, False, now_ms)
    assert not turns.ask(NamedTurn("10.0.0.1", "app", now_ms), now_ms)
    # Of wrong ones so many are remembered.
    for number in range(NETWORKS_MAX + 10):
        turn = NamedTurn(f"other {number}", "app", now_ms)
        assert turns.ask(turn, now_ms)
        turns.over(turn, True, now_ms)
    assert len(turns._networks) <= NETWORKS_MAX + 1


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
