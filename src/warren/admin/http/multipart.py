"""Bodies of several parts, as browsers and `curl -F` send files (`multipart/form-data`).

Source: RFC 7578.
"""

from __future__ import annotations

import re
from typing import Final

MULTIPART: Final = "multipart/form-data"
HEAD_BYTES_MAX: Final = 4_096
BOUNDARY: Final = re.compile(r'(?i);\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s;,"]{1,70}))')
FIELD_NAME: Final = re.compile(
    rb'(?im)^content-disposition:[ \t]*form-data[ \t]*;[ \t]*name="([^"\r\n]*)"'
)


def is_multipart(content_type: str) -> bool:
    """Whether a body has parts."""
    return content_type.strip().lower().startswith(MULTIPART)


def fields_of(body: bytes, content_type: str, most: int) -> list[tuple[str, bytes]]:
    """Names and contents of the parts, in order; each byte is looked at a few times.

    Args:
        most: Parts that there may be.

    Raises:
        ValueError: Nothing says where they end, or there are too many.
    """
    boundary = BOUNDARY.search(content_type)
    if boundary is None:
        raise ValueError(content_type)
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1")
    fields: list[tuple[str, bytes]] = []
    for at, part in enumerate((b"\r\n" + body).split(delimiter, most + 1)[1:]):
        if part.startswith(b"--"):
            break
        if at >= most:
            raise ValueError("too many fields")
        head, _, content = part.partition(b"\r\n\r\n")
        name = FIELD_NAME.search(head[:HEAD_BYTES_MAX])
        if name is not None:
            fields.append((name[1].decode("utf-8", "replace"), content))
    return fields
