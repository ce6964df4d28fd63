"""A load balancer between clients and the nodes of a cluster, as HAProxy would be for TCP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

from tests.support.broker import HOST, free_port

CONNECT_SECONDS_MAX = 1.0
_PIECE_BYTES = 65_536


class Balancer:
    """Hands each connection to the next node in turn that accepts it; closes it if none does.

    Attributes:
        port: Where clients connect.
        tried: How many connections to nodes were begun so far.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self.port = free_port()
        self.tried = 0
        self._ports = list(ports)
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._listening = socket.create_server((HOST, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where clients connect, as a URL with the default user and vhost."""
        return f"amqp://guest:guest@{HOST}:{self.port}/%2F"

    def cut(self) -> int:
        """Break all connections there are, as a failover of the balancer does; how many."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                _shut(end)
        return len(pairs)

    def close(self) -> None:
        """Accept nothing more, and break what there is."""
        # Closing alone does not end an accept that waits in another thread.
        _shut(self._listening)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        node = self._connected()
        if node is None:
            client.close()
            return
        pair = (client, node)
        with self._lock:
            self._pairs.add(pair)
        back = threading.Thread(target=_copy, args=(node, client), daemon=True)
        back.start()
        _copy(client, node)
        back.join()
        with self._lock:
            self._pairs.remove(pair)
        for end in pair:
            end.close()

    def _connected(self) -> socket.socket | None:
        for _ in self._ports:
            with self._lock:
                port = self._ports[self.tried % len(self._ports)]
                self.tried += 1
            try:
                node = socket.create_connection((HOST, port), CONNECT_SECONDS_MAX)
            except OSError:
                continue
            node.settimeout(None)
            return node
        return None


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until either end is done, then break both."""
    try:
        while piece := source.recv(_PIECE_BYTES):
            target.sendall(piece)
    except OSError:
        pass
    for end in (source, target):
        _shut(end)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It is broken or closed already.
