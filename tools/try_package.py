"""Tries a wheel as a new user would: alone in an empty environment, with what README.md shows.

    python tools/try_package.py WHEEL

An empty virtual environment gets the wheel and pika, by pip, and a broker of it runs on a free
port. Then each Python block of README.md runs there, told nothing but the port, and has to end well
and print what it promises. Exit status 0 if all of that came about.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS_MAX = 60.0
RUN_SECONDS_MAX = 60.0
PROMISED = "three carrots"
"""What the message of README.md says: the snippet prints it when it came back."""

ON_PORT = (
    "import pika; pika.connection.Parameters.DEFAULT_PORT = {port}; exec(open({path!r}).read())"
)
"""Runs a snippet that connects to the default port against a broker on another one."""


def snippets(text: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def empty_environment(folder: Path, wheel: str) -> Path:
    """A virtual environment with a wheel and pika in it; the folder of its programs."""
    venv.create(folder, with_pip=False)
    programs = folder / "bin"
    install = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "-q"]
    subprocess.run([*install, "--disable-pip-version-check", wheel, "pika"], check=True)
    return programs


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(broker: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the broker takes clients."""
    until = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            if broker.poll() is not None or time.monotonic() > until:
                raise SystemExit("try_package: the broker does not answer") from None
            time.sleep(0.05)


def main(wheel: str) -> int:
    """Try the wheel; returns the exit status."""
    # Nothing of the checkout may help.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    found = snippets((ROOT / "README.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="try-package-") as name:
        folder = Path(name)
        programs = empty_environment(folder / "environment", wheel)
        port = free_port()
        words = ["server", "--bind", "127.0.0.1", "--port", str(port)]
        words += ["--cluster-port", str(free_port()), "--data-dir", str(folder / "data")]
        broker = subprocess.Popen([programs / "warren", *words], env=environment, cwd=folder)
        try:
            wait_for(broker, port)
            for number, snippet in enumerate(found):
                path = folder / f"snippet{number}.py"
                path.write_text(snippet, encoding="utf-8")
                code = ON_PORT.format(port=port, path=str(path))
                done = subprocess.run(
                    [programs / "python", "-c", code],
                    env=environment,
                    cwd=folder,
                    timeout=RUN_SECONDS_MAX,
                    capture_output=True,
                    text=True,
                )
                print(done.stdout, end="")
                print(done.stderr, end="", file=sys.stderr)
                if done.returncode or PROMISED not in done.stdout:
                    print(f"try_package: block {number + 1} of README.md failed", file=sys.stderr)
                    return 1
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(30)
    print(f"try_package: {len(found)} block(s) of README.md ran on {Path(wheel).name}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
