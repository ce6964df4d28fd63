"""Takes in the fixtures of the tests that speak to a broker over a socket."""

from tests.clients.fixtures import amqp_address, is_warren  # noqa: F401 (pytest finds them here)
