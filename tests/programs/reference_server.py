"""A server for one program, with simulated devices, a manual clock, a key, and optionally TLS."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import trustme

_HOST = "127.0.0.1"
_COMMAND = (sys.executable, "-m", "mirror_server")
# The server ends together with this program, even if that is killed.
_SERVE = (
    *(sys.executable, "-c"),
    "from mirror_server.extensions.options import stop_with_stdin; stop_with_stdin();"
    " from mirror_server.cli import main; main()",
)
_SCOPES = ("read", "write", "subscribe", "admin")
_START_SECONDS = 60
_STOP_SECONDS = 15


class ServerSilent(Exception):
    """The server did not start or respond; the message contains its last output."""


@contextmanager
def reference_server(folder: Path, environment: dict[str, str], by_tls: bool) -> Iterator[dict[str, str]]:
    """Run a server until the end of the block.

    Args:
        folder: The folder of its database and its log.
        environment: Its environment variables.
        by_tls: Whether it uses https, with a new certificate.

    Yields:
        The environment variables with which a program finds it.
    """
    database = f"--database=sqlite:///{folder / 'mirror.db'}"
    scopes = [f"--scope={scope}" for scope in _SCOPES]
    made = [*_COMMAND, "keys", "create", "program", *scopes, database]
    created = subprocess.run(made, env=environment, capture_output=True, text=True, check=False)
    if created.returncode:
        raise ServerSilent(f"the server did not create a key: {created.stderr[-1500:]}")
    key = created.stdout.strip()
    command = [*_SERVE, "run", "--port=0", database, "--simulate=12", "--clock=manual"]
    command.append(f"--allow-callbacks-to={_HOST}/32")
    if by_tls:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "authority.pem"))
        certificate = authority.issue_cert(_HOST)
        certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
        certificate.cert_chain_pems[0].write_to_path(str(folder / "certificate.pem"))
        command += [f"--tls-cert={folder / 'certificate.pem'}", f"--tls-key={folder / 'key.pem'}"]
    with (
        (folder / "server.txt").open("w+") as log,
        subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as server,
    ):
        try:
            url = _address(server, folder)
            trusted = {"NODE_EXTRA_CA_CERTS": str(folder / "authority.pem")} if by_tls else {}
            yield {"API_HOST": url, "API_KEY": key} | trusted
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=_STOP_SECONDS)


def _address(server: subprocess.Popen[str], folder: Path) -> str:
    """Wait until a server responds, and return its URL."""
    assert server.stdout is not None
    url = server.stdout.readline().strip().rpartition(" on ")[2]
    trusted = ssl.create_default_context(cafile=folder / "authority.pem") if url.startswith("https") else True
    end_at = time.monotonic() + _START_SECONDS
    while url and time.monotonic() < end_at and server.poll() is None:
        try:
            httpx.get(f"{url}/healthz", trust_env=False, verify=trusted).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.05)
        else:
            return url
    raise ServerSilent(f"the server did not respond: {(folder / 'server.txt').read_text()[-1500:]}")
