"""Vhosts and users that are gone with tables that came as a whole."""

from __future__ import annotations

from typing import final

from warren.metadata.tables import UserRecord, VhostRecord


@final
class Departed:
    """Those that the tables before had, by what the present ones have.

    Attributes:
        vhosts, users: The names of those that are gone. There may be others of these names.
    """

    def __init__(
        self,
        vhosts: dict[str, VhostRecord],
        users: dict[str, UserRecord],
        present_vhosts: dict[str, VhostRecord],
        present_users: dict[str, UserRecord],
    ) -> None:
        self.vhosts: set[str] = set()
        self.users: set[str] = set()
        for tables in vhosts.values():
            found = present_vhosts.get(tables.name)
            if found is None or found.created != tables.created:
                self.vhosts.add(tables.name)
        for user in users.values():
            there = present_users.get(user.name)
            if there is None or there.created != user.created:
                self.users.add(user.name)
