"""From where users may come: what is set today counts, and a refusal has its reason in the log."""

from __future__ import annotations

from tests.node.pair import Pair

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
