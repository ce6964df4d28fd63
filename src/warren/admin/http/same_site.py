"""Whether a request may change anything, by the page it comes from; and what its query says."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from warren.admin.http.errors import Problem, bad_request, problem

QUERY_FIELDS_MAX = 100


def check_same_site(headers: dict[str, str]) -> None:
    """Refuse to change anything for a page of another site, which a browser lends its credentials.

    Raises:
        Problem: It comes from one.
    """
    origin = headers.get("origin")
    try:
        site = None if origin is None else urlsplit(origin).netloc.lower()
    except ValueError:
        # It is no address at all, and so none of this node.
        site = ""
    own = headers.get("host", "").lower()
    if headers.get("sec-fetch-site") == "cross-site" or (site is not None and site != own):
        raise Problem(problem(403, "forbidden", "requests of other sites change nothing"))


def parsed_query(query: bytes) -> dict[str, str]:
    """The fields of a query.

    Raises:
        Problem: There are too many.
    """
    try:
        return dict(
            parse_qsl(
                query.decode("latin-1"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX
            )
        )
    except ValueError:
        raise bad_request("too many fields in the query") from None
