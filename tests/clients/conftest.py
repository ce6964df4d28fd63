"""Takes in the fixtures of the tests that speak to a broker over a socket."""

from tests.clients.fixtures import (  # noqa: F401 (pytest finds them here)
    amqp_address,
    channel,
    connect,
    is_warren,
    kind,
    names,
    queue,
    raw,
)
