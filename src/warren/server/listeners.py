"""Where a node can be reached: its listeners for clients, for HTTP and for scrapes of metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from warren.admin.service.rows import CertificateFiles, Listener
from warren.admin.service.service import AdminService
from warren.config.config import ServerConfig
from warren.errors import ConfigError
from warren.server.client_log import ClientLog
from warren.server.clients import ClientProtocol, Reception
from warren.server.listening import Answering, LateListener, open_sockets, why_not_listening
from warren.server.settings import (
    WebTls,
    bind_host,
    client_tls_from,
    management_address,
    management_plain,
    management_tls,
    prometheus_address,
    prometheus_plain,
    prometheus_tls,
    transport_policy,
)
from warren.server.socket_options import client_sockets, web_sockets
from warren.server.tls_listener import TlsListener

if TYPE_CHECKING:
    from warren.admin.http.listener import HttpListener

log = logging.getLogger("warren")

HTTP_CLOSE_SECONDS = 1.0
"""How long requests over HTTP get to end at an orderly stop."""
HTTPS_HANDSHAKE_SECONDS = 10.0
ANY_INTERFACE = "[::]"
AMQP_PURPOSE = "AMQP 0-9-1"
HTTP_PURPOSE = "HTTP API"
METRICS_PURPOSE = "Prometheus metrics"


def url_of(host: str, port: int, encrypted: bool) -> str:
    """Where a browser on this machine finds what listens there."""
    own = "localhost" if host in ("", "0.0.0.0", "::") else host
    named = f"[{own}]" if ":" in own and not own.startswith("[") else own
    return f"{'https' if encrypted else 'http'}://{named}:{port}/"


class WebWords(NamedTuple):
    """How something that is listened for over HTTP is told of.

    Attributes:
        what: What is listened for.
        option: What names another port.
        lost: What there is without it.
    """

    what: str
    option: str
    lost: str


API = WebWords("HTTP", "--management-port", "is no HTTP API")
SCRAPES = WebWords("scrapes", "prometheus.tcp.port", "are no metrics")


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
        self._encrypted: list[tuple[TlsListener, HttpListener]] = []
        """What HTTP over TLS is listened for with, and what answers there."""
        self._sampling: asyncio.Task[None] | None = None
        """Looks at the counters of queues all the time, for rates that the HTTP API shows."""

    async def listen_for_clients(self, reception: Reception) -> None:
        """Let clients come.

        Raises:
            ConfigError: An address cannot be listened on.
        """
        options = client_sockets(self._config)
        reception.no_delay = self._config.tcp_nodelay
        for host, port in self._config.listeners:
            try:
                sockets = await open_sockets(self._loop, host, port, options)
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on {host or '*'}:{port}: {why_not_listening(error)}"
                ) from error
            for listening in sockets:
                listener = await self._loop.create_server(
                    lambda: ClientProtocol(reception), sock=listening, backlog=options.backlog
                )
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
                options,
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
            ConfigError: An address that the configuration names cannot be listened on, or a
                certificate or key cannot be used.
        """
        config = self._config
        connections_max = self._http_connections_max

        def load() -> Callable[[], HttpListener]:
            from warren.admin.http.application import Application
            from warren.admin.http.listener import HttpListener
            from warren.admin.http.policy_headers import PolicyHeaders

            content, transport = config.management_csp_policy, transport_policy(config)
            return lambda: HttpListener(
                PolicyHeaders(Application(service), content, transport), connections_max
            )

        encrypted = management_tls(config)
        if encrypted is not None:
            await self._listen_over_tls(load, encrypted, config.management_ssl_backlog)
        if management_plain(config):
            asked = config.management_port > 0
            self._http = await self._listen_for_web(load, management_address(config), asked, API)
        if self._http is not None or encrypted is not None:
            self._sampling = self._loop.create_task(service.statistics.run())

    async def listen_for_scrapes(self, service: AdminService) -> None:
        """Let Prometheus ask for metrics, unless that is switched off.

        Raises:
            ConfigError: As `listen_for_http`.
        """
        config = self._config
        connections_max = self._http_connections_max

        def load() -> Callable[[], HttpListener]:
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

        encrypted = prometheus_tls(config)
        if encrypted is not None:
            await self._listen_over_tls(load, encrypted, config.prometheus_ssl_backlog)
        if not prometheus_plain(config):
            return
        asked = config.prometheus_port > 0
        address = prometheus_address(config)
        self._metrics = await self._listen_for_web(load, address, asked, SCRAPES)

    async def _listen_for_web(
        self,
        load: Callable[[], Callable[[], Answering]],
        address: tuple[str, int],
        asked: bool,
        words: WebWords,
    ) -> LateListener | None:
        """Listen without TLS; None where another process has a port that nobody asked for.

        Args:
            load: Imports what answers, see `LateListener`.
            asked: Whether the configuration names the port.
        """
        host, port = address
        listener = LateListener(self._loop, load)
        try:
            await listener.listen(host, port, web_sockets())
        except OSError as error:
            text = f"cannot listen for {words.what} on {host or '*'}:{port}: "
            text += why_not_listening(error)
            if asked:
                raise ConfigError(text.replace("--port", words.option)) from error
            log.warning(
                "%s; until %s names a free port, there %s",
                text.partition(";")[0],
                words.option,
                words.lost,
            )
            return None
        return listener

    async def _listen_over_tls(
        self, load: Callable[[], Callable[[], HttpListener]], where: WebTls, backlog: int
    ) -> None:
        """Let clients ask over TLS; what answers is loaded at once."""
        answering = load()()
        listener = TlsListener(
            self._loop,
            where.tls.context(),
            HTTPS_HANDSHAKE_SECONDS,
            answering.connection,
            self._client_log.warn,
            web_sockets(backlog),
        )
        try:
            await listener.listen(where.host, where.port)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {where.host or '*'}:{where.port}: {why_not_listening(error)}"
            ) from error
        answering.begin()
        self._encrypted.append((listener, answering))

    def answering(self) -> bool:
        """Whether a request of HTTP is being answered."""
        plain = (self._http, self._metrics)
        return any(each is not None and each.answering for each in plain) or any(
            answering.answering for _, answering in self._encrypted
        )

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
        for encrypted, answering in self._encrypted:
            encrypted.close()
            await answering.close(HTTP_CLOSE_SECONDS)

    def announce(self) -> None:
        """Write to the log where requests over HTTP are answered."""
        for protocol, _, host, port in self._web():
            over = " over TLS" if protocol.startswith("https") else ""
            if protocol.endswith("prometheus"):
                log.info("metrics are answered on %s:%d%s", host, port, over)
            else:
                log.info("the HTTP API answers on %s:%d%s", host, port, over)
                log.info("the web UI is at %s", url_of(host, port, bool(over)))

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
        for protocol, purpose, host, port in self._web():
            yield Listener(
                protocol=protocol,
                interface=host or ANY_INTERFACE,
                port=port,
                purpose=purpose,
            )

    def certificates(self) -> Iterator[CertificateFiles]:
        """Where the certificates of those listeners lie that speak TLS."""
        config = self._config
        clients = client_tls_from(config)
        if clients is not None:
            for host, port in config.tls_listeners:
                where = Listener(
                    protocol="amqp/ssl",
                    interface=host or ANY_INTERFACE,
                    port=port,
                    purpose=f"{AMQP_PURPOSE} over TLS",
                )
                yield CertificateFiles(
                    listener=where, cert_file=clients.cert_file, ca_file=clients.ca_file
                )
        for protocol, purpose, web in (
            ("https", HTTP_PURPOSE, management_tls(config)),
            ("https/prometheus", METRICS_PURPOSE, prometheus_tls(config)),
        ):
            if web is not None:
                where = Listener(
                    protocol=protocol,
                    interface=web.host or ANY_INTERFACE,
                    port=web.port,
                    purpose=f"{purpose} over TLS",
                )
                yield CertificateFiles(
                    listener=where, cert_file=web.tls.cert_file, ca_file=web.tls.ca_file
                )

    def _web(self) -> Iterator[tuple[str, str, str, int]]:
        """What is listened for over HTTP: protocol, purpose, address and port of each."""
        config = self._config
        for protocol, purpose, plain, address, encrypted in (
            ("", HTTP_PURPOSE, self._http, management_address(config), management_tls(config)),
            (
                "/prometheus",
                METRICS_PURPOSE,
                self._metrics,
                prometheus_address(config),
                prometheus_tls(config),
            ),
        ):
            if plain is not None:
                yield f"http{protocol}", purpose, *address
            if encrypted is not None:
                yield f"https{protocol}", f"{purpose} over TLS", encrypted.host, encrypted.port

    def addresses(self) -> list[str]:
        """Where clients connect to, in words."""
        config = self._config
        plain = [f"{host or '0.0.0.0'}:{port}" for host, port in config.listeners]
        tls = [f"{host or '0.0.0.0'}:{port} (TLS)" for host, port in config.tls_listeners]
        return plain + tls
