"""Policies of users and of operators, with typed rows for the values."""

from __future__ import annotations

from typing import Any

from warren.admin.http.answers import encoded
from warren.admin.http.resources.policies import OPERATORS, USERS, Policies
from warren.admin.service.policy_effects import PolicyEffects, effects_of
from warren.admin.ui import figures, known
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.forms import typed_row
from warren.admin.ui.lists import listed_rows, vhost_names
from warren.admin.ui.names import in_query, unpacked
from warren.admin.ui.wrong import Wrong
from warren.errors import Refusal


class PolicyPages:
    """The pages of one kind of policies."""

    def __init__(self, path: str, kind: Policies, operator: bool) -> None:
        self._path = path
        self._kind = kind
        self._operator = operator
        acts = {"put": self.put, "delete": self.delete, "columns": chooser("policies")}
        self.page = WebPage(path, self.show, acts)

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
        vhosts = await vhost_names(asked)
        return Shown(
            "policies.html",
            list=await listed_rows(asked, rows, sort="name"),
            columns=ShownColumns("policies", asked.columns, len(vhosts) > 1),
            vhosts=vhosts,
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
        vhost = form.name("vhost")
        document = {
            "pattern": form.text("pattern"),
            "apply-to": form.text("apply_to", "all"),
            "priority": form.number("priority", "Priority", 0),
            "definition": form.table(),
        }
        await self._make_sure(asked, vhost, name, document)
        await asked.api(self._kind.put, {"vhost": vhost, "name": name}, document=document)
        return WentOn(self._path, f"The policy “{name}” is in force.")

    async def _make_sure(
        self, asked: PageRequest, vhost: str, name: str, document: dict[str, Any]
    ) -> None:
        """Say what a policy would do before it is set; what is wrong with it, the API says."""
        may = asked.administers if self._operator else asked.makes_policies
        if not may:
            return
        # Who may not see the policies of the virtual host is told so.
        await asked.api(self._kind.of_vhost, {"vhost": vhost})
        try:
            effects = await effects_of(
                asked.service,
                operator=self._operator,
                vhost=vhost,
                name=name,
                pattern=document["pattern"],
                definition=encoded(document["definition"]).decode(),
                priority=document["priority"],
                apply_to=document["apply-to"],
            )
        except Refusal:
            return
        asked.make_sure(effect_words(name, effects), "Save policy", name if effects.loses else "")

    async def delete(self, asked: PageRequest) -> WentOn:
        """Remove one."""
        name, vhost = asked.form.name("name"), asked.form.name("vhost")
        asked.make_sure(f"The policy “{name}” of “{vhost}” would be gone.", "Delete policy")
        await asked.api(self._kind.delete, {"vhost": vhost, "name": name})
        return WentOn(self._path, f"The policy “{name}” is gone.")


def effect_words(name: str, found: PolicyEffects) -> str:
    """What a policy would do, in sentences."""
    says = [
        f"The policy “{name}” would count for {_count(found.matched, 'queue')}"
        + (f" and match {_count(found.exchanges, 'exchange')}." if found.exchanges else ".")
    ]
    if found.dropped:
        says.append(f"Up to {_count(found.dropped, 'message')} beyond its limit would be dropped.")
    if found.dropped_bytes:
        text = f"Messages of up to {figures.size(found.dropped_bytes)} beyond its limit"
        says.append(f"{text} would be dropped.")
    if found.timed:
        text = f"{_count(found.timed, 'message')} that wait would have a time to live"
        says.append(f"{text}, and go when it is over.")
    if found.unused:
        says.append(f"{_count(found.unused, 'queue')} without consumers would expire.")
    if found.looked < found.matched:
        says.append(f"Messages of {_count(found.looked, 'queue')} of these were looked at.")
    return " ".join(says)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


PAGES = [
    PolicyPages("/policies", USERS, operator=False).page,
    PolicyPages("/operator-policies", OPERATORS, operator=True).page,
]
