"""Text that is no UTF-8 is refused at every operation that could log it, and the node goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.admin.host import Host, answered
from tests.node.pair import Pair
from warren.admin.service.caller import LOCAL
from warren.admin.service.catalogue import OPERATIONS
from warren.admin.service.service import AdminService
from warren.errors import PRECONDITION_FAILED, Refusal

BAD = "a\udcff"


class Process(Host):
    """Ends, like the server's process, where a step of the node raises anything."""

    def guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except BaseException:
            self.stopped.append(1)
            raise


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("import_definitions", {"definitions": {"vhosts": [{"name": BAD}]}}),
        (
            "import_definitions",
            {"definitions": {"users": [{"name": BAD, "password": "p", "tags": ""}]}},
        ),
        (
            "import_definitions",
            {
                "definitions": {
                    "queues": [
                        {"vhost": "/", "name": BAD, "durable": True, "arguments": {}},
                    ]
                }
            },
        ),
        (
            "import_definitions",
            {
                "definitions": {
                    "policies": [
                        {
                            "vhost": "/",
                            "name": "p",
                            "pattern": BAD,
                            "apply-to": "queues",
                            "priority": 0,
                            "definition": {"max-length": 5},
                        }
                    ]
                }
            },
        ),
    ],
    ids=["vhost", "user", "queue", "policy"],
)
def test_an_operation_refuses_it_and_the_process_goes_on(
    name: str, arguments: dict[str, Any]
) -> None:
    pair = Pair()
    host = Process(pair)
    service = AdminService(pair.a.node, host)
    with pytest.raises(Refusal, match="UTF-8") as refused:
        answered(pair, lambda: OPERATIONS[name].asked(service, LOCAL, arguments))
    assert refused.value.kind == PRECONDITION_FAILED
    assert not host.stopped
    good = {"definitions": {"vhosts": [{"name": "good"}]}}
    answered(pair, lambda: OPERATIONS["import_definitions"].asked(service, LOCAL, good))
    assert "good" in pair.a.node.metadata.vhosts
