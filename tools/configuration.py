"""Writes the page about keys of the configuration file from the code that takes them.

python tools/configuration.py
"""

from __future__ import annotations

from pathlib import Path

from warren.config.config import PATTERNS, SETTINGS, ServerConfig
from warren.config.foreign import FOREIGN

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration

Keys of the configuration file, in the format of `rabbitmq.conf`; written by
`python tools/configuration.py`. [operating.md](operating.md) says how files and options go
together.

## Keys that set something

| key | default | what it sets |
|---|---|---|
"""
FOREIGN_HEAD = """
## Keys of RabbitMQ that set nothing

A file written for RabbitMQ is taken as it is: a node says in its log that such a key does nothing,
and why. It does not start with those that are *refused*, because its owner would rely on them. A
key that ends with a dot stands for all that begin so; the longest counts.

| key | | why |
|---|---|---|
"""


def page() -> str:
    """The page."""
    defaults = ServerConfig(node_name="", data_dir="", listeners=())
    lines = [f"| `{key}` | | {text} |" for key, text in PATTERNS]
    for setting in SETTINGS:
        default = getattr(defaults, setting.field)
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        if default is None or setting.field.endswith(("_absolute", "_port")) or shown == "":
            shown = ""
        text = setting.help.replace("|", "\\|")
        lines.append(f"| `{setting.key}` | {f'`{shown}`' if shown else ''} | {text} |")
    foreign = [
        f"| `{found.key}` | {'refused' if found.refused else ''} | {found.why} |"
        for found in sorted(FOREIGN)
    ]
    return HEAD + "\n".join(lines) + "\n" + FOREIGN_HEAD + "\n".join(foreign) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
