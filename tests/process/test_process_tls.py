"""TLS of the server itself: HTTPS, secure websockets, renewal of the certificate without interruption, and errors."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from databases import new_database_url
from process_server import PATIENCE_SECONDS, Child, run_command, wait_until
from websockets.sync.client import connect

from mirror_sdk import AsyncMirrorClient, ConnectionFailed, MirrorClient
from mirror_sdk._protocol.tls_socket import TwoThreadTLSSocket
from mirror_server.hooks import open_database
from mirror_server.service import keys as access_keys
from mirror_server.service.keys import Scope

pytestmark = pytest.mark.process

KEY_MADE_AT = 1_700_000_000_000


class Files:
    """A certificate and its key, as the server reads them."""

    def __init__(self, folder: Path, authority: trustme.CA) -> None:
        self.authority = authority
        self.ends_at: datetime | None = None
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.renew()

    def renew(self) -> int:
        """Write another certificate and return its serial number."""
        made = self.authority.issue_cert("localhost", "127.0.0.1", not_after=self.ends_at)
        self.cert.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        self.key.write_bytes(made.private_key_pem.bytes())
        return x509.load_pem_x509_certificate(self.cert.read_bytes()).serial_number

    @property
    def options(self) -> tuple[str, ...]:
        return ("--tls-cert", str(self.cert), "--tls-key", str(self.key))

    def context(self) -> ssl.SSLContext:
        """Return a context that trusts the test's authority."""
        made = ssl.create_default_context()
        made.sslsocket_class = TwoThreadTLSSocket
        self.authority.configure_trust(made)
        return made


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, trustme.CA())


class Server:
    """A process of ``mirror-server run`` with TLS."""

    def __init__(self, folder: Path, *options: str, database_url: str | None = None, **variables: str) -> None:
        self.database_url = database_url or new_database_url(folder)
        arguments = ["run", "--port", "0", "--database", self.database_url, "--simulate", "2", *options]
        self.child = Child(*arguments, stderr_path=folder / "stderr.txt", **variables)
        self.url = self.child.read_line().rpartition(" on ")[2]
        self.port = int(self.url.rpartition(":")[2])

    def key(self) -> str:
        database = open_database(self.database_url)
        try:
            return access_keys.create(database, "test", tuple(Scope), KEY_MADE_AT)
        finally:
            database.close()

    def serial_number(self, context: ssl.SSLContext) -> int:
        """Return the serial number of the server's current certificate."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            certificate = connection.getpeercert(binary_form=True)
        assert certificate is not None
        return x509.load_der_x509_certificate(certificate).serial_number

    def close(self) -> None:
        self.child.send(signal.SIGTERM)
        assert self.child.wait() == 0
        self.child.close()
        assert "Traceback" not in self.child.stderr


@pytest.fixture(scope="module")
def served_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"), trustme.CA())


@pytest.fixture(scope="module")
def server(served_files: Files) -> Iterator[Server]:
    made = Server(served_files.cert.parent, *served_files.options)
    yield made
    made.close()


def test_https_and_wss_are_spoken_with_the_certificate(served_files, server):
    assert server.url.startswith("https://")
    context = served_files.context()
    assert httpx.get(f"{server.url}/healthz", verify=context, trust_env=False).status_code == 200
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{server.url}/healthz", trust_env=False)
    key = server.key()
    headers = {"Authorization": f"Bearer {key}"}
    httpx.put(f"{server.url}/v2/notification/websocket", headers=headers, verify=context, trust_env=False)
    url = server.url.replace("https:", "wss:") + "/v2/notification/websocket-connect"

    def is_connected():
        state = httpx.get(f"{server.url}/v2/notification/websocket", headers=headers, verify=context, trust_env=False)
        return state.json()["status"] == "connected"

    with connect(url, ssl=context, additional_headers=headers, proxy=None):
        # The server stores the connection after the handshake.
        wait_until(is_connected, "the socket to be connected")


def test_plain_http_and_old_tls_are_rejected(served_files, server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in plain.recv(100)
    old = served_files.context()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError, match=r"(?i)ssl|reset|version|protocol"):
        server.serial_number(old)
    assert httpx.get(f"{server.url}/healthz", verify=served_files.context(), trust_env=False).status_code == 200


async def devices_of(url: str, key: str) -> int:
    async with AsyncMirrorClient(url, key) as client:
        return len(await client.devices.list())


def test_sdk_trusts_the_authority_of_the_environment(served_files, server, tmp_path, monkeypatch):
    authority = tmp_path / "authority.pem"
    served_files.authority.cert_pem.write_to_path(str(authority))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    key = server.key()
    with MirrorClient(server.url, key) as client:
        assert len(client.devices.list()) == 2
        client.notifications.use_websocket()
        assert client.notifications.status().channel == "websocket"
    assert asyncio.run(devices_of(server.url, key)) == 2


def test_sdk_reports_how_to_trust_another_authority_and_how_to_fix_plain_http(server):
    with MirrorClient(server.url, "key", max_retries=0) as client:
        for call in (client.devices.list, client.notifications.use_websocket):
            with pytest.raises(ConnectionFailed, match=r"CERTIFICATE_VERIFY_FAILED.*; .*SSL_CERT_FILE"):
                call()
    with (
        MirrorClient(server.url.replace("https:", "http:"), "key", max_retries=0) as client,
        pytest.raises(ConnectionFailed, match="if it speaks TLS, begin its address with https://"),
    ):
        client.devices.list()


def test_sighup_reloads_the_certificate_and_keeps_connections(served_files, server):
    context = served_files.context()
    first = server.serial_number(context)
    headers = {"Authorization": f"Bearer {server.key()}"}
    url = server.url.replace("https:", "wss:") + "/v2/notification/websocket-connect?after=0"
    with (
        httpx.Client(base_url=server.url, headers=headers, verify=context, trust_env=False) as client,
        connect(url, ssl=context, additional_headers=headers, proxy=None) as websocket,
    ):
        client.get("/healthz")
        new_serial = served_files.renew()
        assert server.serial_number(context) == first
        server.child.send(signal.SIGHUP)
        wait_until(lambda: server.serial_number(context) == new_serial, "the new certificate")
        assert client.get("/healthz").status_code == 200
        assert websocket.recv(timeout=PATIENCE_SECONDS)
        websocket.ping().wait(PATIENCE_SECONDS)
    assert server.child.stderr.count("the certificate was reloaded") == 1


def test_certificate_that_cannot_be_used_leaves_the_one_before(served_files, server):
    context = served_files.context()
    first = server.serial_number(context)
    other = served_files.authority.issue_cert("localhost")
    good_cert, good_key = served_files.cert.read_bytes(), served_files.key.read_bytes()
    faults = [
        (b"", good_key, "has no certificate"),
        (good_cert, other.private_key_pem.bytes(), "does not belong to the certificate"),
        (good_cert, b"nonsense", "has no private key"),
    ]
    for number, (cert, key, message) in enumerate(faults, 1):
        served_files.cert.write_bytes(cert)
        served_files.key.write_bytes(key)
        server.child.send(signal.SIGHUP)
        wait_until(lambda number=number: server.child.stderr.count("was not reloaded") == number, message)
        assert message in server.child.stderr
        assert server.serial_number(context) == first


def test_environment_variables_set_the_certificate_and_an_expired_one_is_logged(files, tmp_path):
    files.ends_at = datetime(2020, 2, 29, tzinfo=UTC)
    files.renew()
    server = Server(tmp_path, MIRROR_TLS_CERT=str(files.cert), MIRROR_TLS_KEY=str(files.key))
    assert server.url.startswith("https://")
    assert f"--tls-cert {files.cert} expired at 2020-02-29 00:00 UTC" in server.child.stderr
    headers = {"Authorization": f"Bearer {server.key()}"}
    with httpx.Client(base_url=server.url, headers=headers, verify=False, trust_env=False) as client:
        lines = client.get("/metrics").text.splitlines()
    (end,) = (line.split()[1] for line in lines if line.startswith("mirror_tls_certificate_ends_at_seconds "))
    assert float(end) == files.ends_at.timestamp()
    server.close()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no certificate", "--tls-cert {cert} cannot be read: No such file"),
        ("other key", "the key {key} does not belong to the certificate {cert}"),
        ("encrypted", "the key {key} is encrypted; decrypt it with 'openssl pkey"),
        ("swapped", "--tls-cert {cert} has no certificate in PEM"),
        ("nonsense", "--tls-key {key} has no private key in PEM"),
    ],
)
def test_unusable_certificate_is_reported_at_the_start(files, tmp_path, fault, message):
    good_key = files.key.read_bytes()
    if fault == "no certificate":
        files.cert.unlink()
    elif fault == "other key":
        files.key.write_bytes(files.authority.issue_cert("localhost").private_key_pem.bytes())
    elif fault == "encrypted":
        key = load_pem_private_key(good_key, None)
        files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    elif fault == "swapped":
        files.cert, files.key = files.key, files.cert
    else:
        files.key.write_bytes(b"nonsense")

    ended = run_command("run", "--port", "0", "--database", f"sqlite:///{tmp_path}/mirror.db", *files.options)

    assert ended.returncode == 1
    assert message.format(cert=files.cert, key=files.key) in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stderr
    assert not (tmp_path / "mirror.db").exists()


def test_certificate_needs_a_key_and_vice_versa(files):
    ended = run_command("run", *files.options[:2])

    assert ended.returncode == 2
    assert "belong together" in ended.stderr
