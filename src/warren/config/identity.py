"""What a data directory says of its node: the files `node` and `secret`.

`node` is text, a line `key = value` each:

    crc32    of the lines behind it, 8 hexadecimal digits; missing in files of earlier versions
    uid      16 random bytes in hex, drawn once: a node that lost its directory is another one
    boot     how often the directory was started
    life     16 random bytes in hex, drawn at each start
    lives    those of the starts before, the newest first
    former   the uid that it gave up, until it is in its cluster again; missing but for then
    cluster  the cluster it belongs to, 16 bytes in hex; missing before it belongs to one
    name     the node's name
    nodes    the other nodes of its cluster, as name=host:port; missing while there are none
    address  host:port of its cluster listener, for `warren cluster`; port 0 if it has none
    left     1 once the node has left its cluster: the directory is of no more use
    reset    1 from when an operator wants it empty until it is
    alone    1 while it is to begin a cluster of its own, whatever the configuration says
    joins    host:port of the cluster that it is to join, until it knows the nodes there

The text stands there twice, with 4096 line feeds between: one of the two is enough.

`secret` holds the secret in use, so that a later start and `warren cluster` need not be told it.
Both files are replaced in one step, and are durable before anything follows from them.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from pathlib import Path

from warren.checksum import crc32
from warren.errors import ConfigError, StorageError
from warren.log.manifest import COPY_GAP, DIRECTORY, MANIFEST_PATH, copies_of
from warren.protocols.peer.hello import LIVES_MAX

ID_BYTES = 16
SECRET_BYTES = 32
NODE_FILE = "node"
SECRET_FILE = "secret"
CHECK = "crc32 = "


class Identity:
    """The file `node`.

    Attributes:
        uid: The node's.
        boot: How often the directory was started, this time included.
        life: Random bytes of this start.
        lives: Those of the starts before, the newest first, at most `LIVES_MAX`.
        former_uid: What the directory gave up because it lacks what it acknowledged; else empty.
        cluster_id: Of the cluster it belongs to, empty if it belongs to none.
        name: The node's name.
        nodes: Name, host and port of each other node of its cluster.
        address: Host and port of its cluster listener; port 0 if it has none.
        left: Whether it has left its cluster.
        reset: Whether all that it has is to be removed with the next start.
        alone: Whether the node is to begin a cluster of its own.
        joins: Where the cluster answers that it is to join; None if it is to join none.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.uid = os.urandom(ID_BYTES)
        self.boot = 0
        self.life = b""
        self.lives: list[bytes] = []
        self.former_uid = b""
        self.cluster_id = b""
        self.name = name
        self.nodes: list[tuple[str, str, int]] = []
        self.address = ("", 0)
        self.left = False
        self.reset = False
        self.alone = False
        self.joins: tuple[str, int] | None = None
        self._path = path

    def save(self) -> None:
        """Make it durable.

        Raises:
            StorageError: It cannot be written.
        """
        lines = [f"uid = {self.uid.hex()}", f"boot = {self.boot}", f"name = {self.name}"]
        lines.append(f"address = {self.address[0]}:{self.address[1]}")
        lines.append(f"life = {self.life.hex()}")
        lines.append(f"lives = {' '.join(life.hex() for life in self.lives)}")
        if self.former_uid:
            lines.append(f"former = {self.former_uid.hex()}")
        if self.cluster_id:
            lines.append(f"cluster = {self.cluster_id.hex()}")
        if self.nodes:
            nodes = " ".join(f"{name}={host}:{port}" for name, host, port in self.nodes)
            lines.append(f"nodes = {nodes}")
        if self.left:
            lines.append("left = 1")
        if self.reset:
            lines.append("reset = 1")
        if self.alone:
            lines.append("alone = 1")
        if self.joins is not None:
            lines.append(f"joins = {self.joins[0]}:{self.joins[1]}")
        text = "".join(f"{line}\n" for line in lines)
        text = f"{CHECK}{crc32(text.encode()):08x}\n{text}"
        try:
            replace(self._path, text + COPY_GAP.decode() + text, 0o644)
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror}") from error

    def belongs_to(self, cluster_id: bytes) -> None:
        """Note the cluster that the directory belongs to from now on."""
        if self.cluster_id != cluster_id:
            self.cluster_id = cluster_id
            self.alone = False
            self.save()

    def is_with(self, nodes: list[tuple[str, str, int]]) -> None:
        """Note which other nodes there are, and where: asked when the log cannot tell."""
        if self.nodes != nodes:
            self.nodes = nodes
            if nodes and not self.reset:
                # From now on these know where the cluster is.
                self.joins = None
            self.save()

    def begin_anew(self) -> None:
        """Take another uid, durably: the copies that this directory has are not to be counted on.

        Raises:
            StorageError: It cannot be written.
        """
        self.former_uid = self.uid
        self.uid = os.urandom(ID_BYTES)
        self.save()

    def begun_anew(self) -> None:
        """Note that the cluster has the directory under its new uid.

        Raises:
            StorageError: It cannot be written.
        """
        self.former_uid = b""
        self.save()

    def listens_at(self, address: tuple[str, int]) -> None:
        """Note where the cluster listener is, now that it is there."""
        if self.address != address:
            self.address = address
            self.save()

    def to_reset(self, joins: tuple[str, int] | None) -> None:
        """Note that the directory is to be emptied before it is used again.

        Args:
            joins: Where the cluster answers that its node is to join then; None for one of its own.

        Raises:
            StorageError: It cannot be written.
        """
        self.reset = True
        self.joins = joins
        self.save()

    def has_left(self) -> None:
        """Note that the node is out of its cluster."""
        self.left = True
        self.save()


def read_identity(data_dir: str) -> Identity | None:
    """What the directory says; None where it says nothing yet.

    Raises:
        StorageError: The file is damaged, or cannot be read.
    """
    path = Path(data_dir) / NODE_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path}: {error}") from error
    fields: dict[str, str] = {}
    for line in whole_text(data).splitlines():
        key, _, value = line.partition(" = ")
        fields[key] = value
    identity = Identity(path, fields.get("name", ""))
    host, _, port = fields.get("address", ":0").rpartition(":")
    try:
        identity.uid = bytes.fromhex(fields["uid"])
        identity.cluster_id = bytes.fromhex(fields.get("cluster", ""))
        identity.former_uid = bytes.fromhex(fields.get("former", ""))
        identity.life = bytes.fromhex(fields.get("life", ""))
        identity.lives = [bytes.fromhex(life) for life in fields.get("lives", "").split()]
        identity.boot = int(fields["boot"])
        identity.address = (host, int(port))
        identity.left = fields.get("left", "") == "1"
        identity.reset = fields.get("reset", "") == "1"
        identity.alone = fields.get("alone", "") == "1"
        if "joins" in fields:
            host, _, port = fields["joins"].rpartition(":")
            identity.joins = (host, int(port))
        for word in fields.get("nodes", "").split():
            other, _, place = word.partition("=")
            host, _, port = place.rpartition(":")
            identity.nodes.append((other, host, int(port)))
        if len(identity.uid) != ID_BYTES or len(identity.cluster_id) not in (0, ID_BYTES):
            raise ValueError("an identity has 16 bytes")
    except (KeyError, ValueError) as error:
        raise StorageError(
            f"{path} is damaged: restore it from a copy; or, where there are other nodes, begin "
            f"with an empty directory behind 'warren cluster forget' of this node ({error})"
        ) from None
    return identity


def whole_text(data: bytes) -> str:
    """That of the two texts of the file which is whole; empty if neither is.

    Files of earlier versions have one text, without a checksum.
    """
    for text in copies_of(data):
        head, _, body = text.partition(b"\n")
        if head == b"%s%08x" % (CHECK.encode(), crc32(body)):
            return body.decode()
    return "" if CHECK.encode() in data else data.decode("utf-8", "replace")


def begin_life(data_dir: str, name: str) -> Identity:
    """The identity for a start, with its boot number raised.

    One that is in a cluster already is not saved: that is due when the node's data was found to be
    whole, and before other nodes hear of this start.

    Raises:
        StorageError: The file is damaged, missing beside a log, without a log although its node is
            in a cluster, or belongs to a node of another name in a cluster, or to one that left it.
    """
    identity = read_identity(data_dir)
    if identity is not None and identity.reset:
        identity = emptied(data_dir, identity)
    has_log = (Path(data_dir) / MANIFEST_PATH).exists()
    if identity is None:
        if has_log:
            raise StorageError(
                f"{data_dir} holds a node's log and no file '{NODE_FILE}'; "
                "restore that file from a copy, or begin with an empty directory"
            )
        identity = Identity(Path(data_dir) / NODE_FILE, name)
    elif identity.left:
        raise StorageError(
            f"{data_dir} is that of node {identity.name}, which has left its cluster, and of no "
            "more use: begin with an empty directory, and --join for a node that is to come back"
        )
    elif identity.cluster_id and identity.name not in ("", name):
        raise StorageError(
            f"{data_dir} belongs to node {identity.name}, not {name}: a node cannot change its "
            f"name; start it with --node-name {identity.name}"
        )
    elif identity.cluster_id and not has_log and not identity.former_uid:
        # An empty disk under an old identity would take back what it acknowledged.
        raise StorageError(
            f"{data_dir} is that of node {name}, which is in a cluster, and the node's log there "
            "is gone; restore the directory from a copy, or begin with an empty one, where there "
            f"are other nodes behind 'warren cluster forget {name}'"
        )
    identity.name = name
    identity.boot += 1
    if identity.life:
        identity.lives = [identity.life, *identity.lives][:LIVES_MAX]
    identity.life = os.urandom(ID_BYTES)
    if not identity.cluster_id:
        identity.save()
    return identity


def emptied(data_dir: str, former: Identity) -> Identity:
    """Remove what a directory has, but for the secret; the identity that it has from now on.

    An end in between is no harm: the file `node` is replaced behind all else.

    Raises:
        StorageError: It cannot be removed.
    """
    try:
        shutil.rmtree(Path(data_dir) / DIRECTORY)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageError(f"{data_dir}/{DIRECTORY} cannot be removed: {error}") from error
    identity = Identity(Path(data_dir) / NODE_FILE, former.name)
    identity.joins = former.joins
    identity.alone = former.joins is None
    identity.save()
    return identity


def find_secret(data_dir: str, file: str, given: str, joins: bool) -> bytes:
    """The cluster's secret: of a file, as given, or as the data directory has it.

    A node that needs none of others draws one. The one in use stays in the data directory.

    Args:
        file: Path of a file that holds it, may be empty.
        given: The secret itself, may be empty.
        joins: Whether the node is to join a cluster, which has one already.

    Raises:
        ConfigError: There is none and it is needed, or the file cannot be read.
    """
    kept = Path(data_dir) / SECRET_FILE
    before = read_secret(kept) if kept.exists() else ""
    secret = read_secret(Path(file)) if file else given or before
    if not secret:
        if joins:
            raise ConfigError(
                "a node that joins a cluster needs its secret: copy the file "
                f"'{SECRET_FILE}' from the data directory of one of its nodes to {kept}, or name "
                "one with --secret-file, cluster.secret or WARREN_CLUSTER_SECRET"
            )
        secret = secrets.token_hex(SECRET_BYTES)
    if secret != before:
        try:
            replace(kept, secret + "\n", 0o600)
        except OSError as error:
            raise ConfigError(f"{kept}: {error.strerror}") from error
    return secret.encode()


def read_secret(path: Path) -> str:
    """A secret from a file: its text without blanks around it.

    Raises:
        ConfigError: It cannot be read, or is empty, or has more than one line.
    """
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"secret file {path}: {why}") from None
    if not re.fullmatch(r"\S+", secret):
        raise ConfigError(f"secret file {path}: a secret is one word, such as 64 hex digits")
    return secret


def replace(path: Path, text: str, mode: int) -> None:
    """Write a file in one step, durably. Raises `OSError`."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
