"""Policies of users and of operators, with typed rows for the values."""

from __future__ import annotations

from typing import Any

from warren.admin.http.resources.policies import OPERATORS, USERS, Policies
from warren.admin.ui import known
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.forms import typed_row
from warren.admin.ui.lists import listed_rows, vhost_names
from warren.admin.ui.names import in_query, unpacked
from warren.admin.ui.wrong import Wrong


class PolicyPages:
    """The pages of one kind of policies."""

    def __init__(self, path: str, kind: Policies, operator: bool) -> None:
        self._path = path
        self._kind = kind
        self._operator = operator
        self.page = WebPage(path, self.show, {"put": self.put, "delete": self.delete})

    async def show(self, asked: PageRequest) -> Shown:
        """All of them, with the form for one."""
        vhost = asked.query.get("vhost", "")
        handler = self._kind.of_vhost if vhost else self._kind.all
        rows = await asked.api(handler, {"vhost": vhost})
        edited: dict[str, Any] | None = None
        if "edit" in asked.query and asked.query.get("in"):
            edited = await asked.api(
                self._kind.one,
                {"vhost": unpacked(asked.query["in"]), "name": unpacked(asked.query["edit"])},
            )
        return Shown(
            "policies.html",
            list=await listed_rows(asked, rows, sort="name"),
            vhosts=await vhost_names(asked),
            edited=edited,
            definition=[typed_row(*item) for item in edited["definition"].items()]
            if edited
            else [],
            operator=self._operator,
            apply_to=known.OPERATOR_APPLY_TO if self._operator else known.APPLY_TO,
            groups=known.OPERATOR_GROUPS if self._operator else known.POLICY_GROUPS,
            edit_link=self._edit_link,
        )

    def _edit_link(self, row: dict[str, Any]) -> str:
        return f"{self._path}?edit={in_query(row['name'])}&in={in_query(row['vhost'])}#form"

    async def put(self, asked: PageRequest) -> WentOn:
        """Create or replace one."""
        form = asked.form
        name = form.text("name")
        if not name:
            raise Wrong(400, "A policy needs a name.")
        await asked.api(
            self._kind.put,
            {"vhost": form.name("vhost"), "name": name},
            document={
                "pattern": form.text("pattern"),
                "apply-to": form.text("apply_to", "all"),
                "priority": form.number("priority", "Priority", 0),
                "definition": form.table(),
            },
        )
        return WentOn(self._path, f"The policy “{name}” is in force.")

    async def delete(self, asked: PageRequest) -> WentOn:
        """Remove one."""
        name, vhost = asked.form.name("name"), asked.form.name("vhost")
        asked.make_sure(f"The policy “{name}” of “{vhost}” would be gone.", "Delete policy")
        await asked.api(self._kind.delete, {"vhost": vhost, "name": name})
        return WentOn(self._path, f"The policy “{name}” is gone.")


PAGES = [
    PolicyPages("/policies", USERS, operator=False).page,
    PolicyPages("/operator-policies", OPERATORS, operator=True).page,
]
