"""Templates to bytes, so that no client of the node waits for a page.

Templates are read on a thread when the first page is drawn, and pages are drawn in parts.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from warren.admin.service.slices import Slices
from warren.admin.ui import figures, forms, known
from warren.admin.ui.findings import disk_words
from warren.admin.ui.names import breakable, in_query, packed, path

HERE: Final = Path(__file__).resolve().parent


class Drawing:
    """Draws pages of templates, each of which is read once."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            # Every page: a name that was left out of a list of extensions would not be escaped.
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            count=figures.count,
            rate=figures.rate,
            size=figures.size,
            size_rate=figures.size_rate,
            duration=figures.duration,
            moment=figures.moment,
            value=figures.value,
            packed=packed,
            breakable=breakable,
            in_query=in_query,
        )
        self._environment.globals.update(
            path=path,
            percent=figures.percent,
            words_of=figures.words_of,
            value_types=forms.TYPES,
            known=known,
            disk_words=disk_words,
        )

        self._reading: asyncio.Task[None] | None = None

    def _read_all(self) -> None:
        """Compile all templates: one by one on the event loop, each would stop it for a moment."""
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    async def draw(self, template: str, values: dict[str, Any]) -> bytes:
        """A page in UTF-8; bytes of names that are none are shown as replacements."""
        reading = self._reading
        if reading is None or (reading.done() and reading.exception() is not None):
            reading = self._reading = asyncio.create_task(asyncio.to_thread(self._read_all))
        await asyncio.shield(reading)
        slices = Slices()
        parts: list[str] = []
        for part in self._environment.get_template(template).generate(values):
            parts.append(part)
            await slices.breathe()
        text = "".join(parts)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()
