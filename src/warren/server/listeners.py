"""Where a node can be reached: its listeners for clients, for HTTP and for scrapes of metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from warren.admin.service.rows import Listener
from warren.admin.service.service import AdminService
from warren.config.config import ServerConfig
from warren.errors import ConfigError
from warren.server.client_log import ClientLog
from warren.server.clients import ClientProtocol, Reception
from warren.server.listening import Answering, LateListener, why_not_listening
from warren.server.settings import (
    bind_host,
    client_tls_from,
    management_address,
    prometheus_address,
)
from warren.server.tls_listener import TlsListener

log = logging.getLogger("warren")

HTTP_CLOSE_SECONDS = 1.0
"""How long requests over HTTP get to end at an orderly stop."""
HTTP_BACKLOG = 256
"""Connections that the kernel keeps until they are accepted."""
ANY_INTERFACE = "[::]"
AMQP_PURPOSE = "AMQP 0-9-1"


class Listeners:
    """The listeners of one node, but for the one of other nodes.

    Attributes:
        drained: Whether an operator has asked that no client is let in.
    """

    def __init__(
        self,
        config: ServerConfig,
        loop: asyncio.AbstractEventLoop,
        client_log: ClientLog,
        http_connections_max: int,
    ) -> None:
        """Begin with none.

        Args:
            http_connections_max: Connections at a time, of the HTTP API and of metrics each.

        Raises:
            ConfigError: A certificate or key for clients cannot be used.
        """
        self.drained = False
        self._config = config
        self._loop = loop
        self._client_log = client_log
        self._http_connections_max = http_connections_max
        client_tls = client_tls_from(config)
        self._client_tls = None if client_tls is None else client_tls.context()
        self._clients: list[asyncio.Server | TlsListener] = []
        self._http: LateListener | None = None
        self._metrics: LateListener | None = None
        self._sampling: asyncio.Task[None] | None = None
        """Looks at the counters of queues all the time, for rates that the HTTP API shows."""

    async def listen_for_clients(self, reception: Reception) -> None:
        """Let clients come.

        Raises:
            ConfigError: An address cannot be listened on.
        """
        for host, port in self._config.listeners:
            try:
                listener = await self._loop.create_server(
                    lambda: ClientProtocol(reception), host, port, backlog=4096, reuse_address=True
                )
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on {host or '*'}:{port}: {why_not_listening(error)}"
                ) from error
            self._clients.append(listener)
        if self._client_tls is None:
            return
        for host, port in self._config.tls_listeners:
            encrypted = TlsListener(
                self._loop,
                self._client_tls,
                self._config.handshake_timeout / 1_000,
                lambda: ClientProtocol(reception, encrypted=True),
                self._client_log.warn,
            )
            try:
                await encrypted.listen(host, port)
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on {host or '*'}:{port}: {why_not_listening(error)}"
                ) from error
            self._clients.append(encrypted)

    async def listen_for_http(self, service: AdminService) -> None:
        """Let operators and applications ask over HTTP, unless that is switched off.

        Raises:
            ConfigError: The address that the configuration names cannot be listened on.
        """
        port = self._config.management_port
        if port == 0:
            return
        connections_max = self._http_connections_max

        def load() -> Callable[[], Answering]:
            from warren.admin.http.application import Application
            from warren.admin.http.listener import HttpListener

            return lambda: HttpListener(Application(service), connections_max)

        host, port = management_address(self._config)
        listener = LateListener(self._loop, load)
        try:
            await listener.listen(host, port, HTTP_BACKLOG)
        except OSError as error:
            text = f"cannot listen for HTTP on {host or '*'}:{port}: {why_not_listening(error)}"
            if self._config.management_port > 0:
                raise ConfigError(text.replace("--port", "--management-port")) from error
            log.warning(
                "%s; until --management-port names a free port, there is no HTTP API",
                text.partition(";")[0],
            )
            return
        self._http = listener
        self._sampling = self._loop.create_task(service.statistics.run())

    async def listen_for_scrapes(self, service: AdminService) -> None:
        """Let Prometheus ask for metrics, unless that is switched off.

        Raises:
            ConfigError: The address that the configuration names cannot be listened on.
        """
        config = self._config
        if config.prometheus_port == 0:
            return
        connections_max = self._http_connections_max

        def load() -> Callable[[], Answering]:
            from warren.admin.http.listener import HttpListener
            from warren.admin.metrics.application import MetricsApplication

            return lambda: HttpListener(
                MetricsApplication(
                    service,
                    config.prometheus_path,
                    config.prometheus_per_object,
                    config.prometheus_authentication,
                ),
                connections_max,
            )

        host, port = prometheus_address(config)
        listener = LateListener(self._loop, load)
        try:
            await listener.listen(host, port, HTTP_BACKLOG)
        except OSError as error:
            text = f"cannot listen for scrapes on {host or '*'}:{port}: {why_not_listening(error)}"
            if config.prometheus_port > 0:
                raise ConfigError(text.replace("--port", "prometheus.tcp.port")) from error
            log.warning(
                "%s; until prometheus.tcp.port names a free port, there are no metrics",
                text.partition(";")[0],
            )
            return
        self._metrics = listener

    def stop_clients(self) -> None:
        """Let no client come any more; those that are here stay."""
        listeners = self._clients
        self._clients = []
        for listener in listeners:
            listener.close()

    async def close(self) -> None:
        """Let nobody come any more, and end what is asked over HTTP."""
        self.stop_clients()
        if self._sampling is not None:
            self._sampling.cancel()
        for listener in (self._http, self._metrics):
            if listener is not None:
                await listener.close(HTTP_CLOSE_SECONDS)

    def announce(self) -> None:
        """Write to the log where requests over HTTP are answered."""
        if self._http is not None:
            log.info("the HTTP API answers on %s:%d", *management_address(self._config))
        if self._metrics is not None:
            log.info("metrics are answered on %s:%d", *prometheus_address(self._config))

    def rows(self, cluster_port: int) -> Iterator[Listener]:
        """What operators are told of each.

        Args:
            cluster_port: Where other nodes are listened for.
        """
        config = self._config
        yield Listener(
            protocol="clustering",
            interface=bind_host(config) or ANY_INTERFACE,
            port=cluster_port,
            purpose="inter-node and CLI tool communication",
        )
        if self.drained:
            return
        for protocol, purpose, listeners in (
            ("amqp", AMQP_PURPOSE, config.listeners),
            ("amqp/ssl", f"{AMQP_PURPOSE} over TLS", config.tls_listeners),
        ):
            for host, port in listeners:
                yield Listener(
                    protocol=protocol,
                    interface=host or ANY_INTERFACE,
                    port=port,
                    purpose=purpose,
                )
        for protocol, purpose, listener, (host, port) in (
            ("http", "HTTP API", self._http, management_address(config)),
            (
                "http/prometheus",
                "Prometheus metrics",
                self._metrics,
                prometheus_address(config),
            ),
        ):
            if listener is not None:
                yield Listener(
                    protocol=protocol,
                    interface=host or ANY_INTERFACE,
                    port=port,
                    purpose=purpose,
                )

    def addresses(self) -> list[str]:
        """Where clients connect to, in words."""
        config = self._config
        plain = [f"{host or '0.0.0.0'}:{port}" for host, port in config.listeners]
        tls = [f"{host or '0.0.0.0'}:{port} (TLS)" for host, port in config.tls_listeners]
        return plain + tls
