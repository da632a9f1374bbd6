"""Proxies and certificates of the environment, for both clients."""

import asyncio
import os
import socket
import time

import httpcore
import httpx
import pytest
from malicious_service import BRIEFLY, MaliciousService

from mirror_sdk import AsyncMirrorClient, ConfigError, ConnectionFailed, MirrorClient
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.network_streams import DeadlineBackend, OpenStreams
from mirror_sdk._protocol.proxy_and_tls_settings import proxy_for
from mirror_sdk.config import DEFAULT_BASE_URL

LISTED = "127.0.0.1,localhost,.example.com,10.0.0.0/8"
PROXY = "http://proxy.test:3128"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return monkeypatch


LEFT_OUT = [
    ("", [], ["https://mirror.test"]),
    ("*", ["https://mirror.test"], []),
    (LISTED, ["http://127.0.0.1:8080", "http://localhost:8080", "http://10.1.2.3"], ["http://11.1.2.3"]),
    (LISTED, ["https://mirror.example.com"], ["https://example.com"]),
    (" Example.com , ", ["https://EXAMPLE.com"], []),
    ("example.com", ["https://mirror.example.com"], ["https://notexample.com"]),
    ("example.com:8443", ["https://example.com:8443"], ["https://example.com"]),
    ("example.com:443", ["https://example.com"], []),
    ("https://example.com", ["https://example.com"], []),
    ("http://example.com", [], ["https://example.com"]),
    ("all://example.com", ["https://example.com"], []),
    ("[::1]:8080", ["http://[::1]:8080"], ["http://[::1]:8081"]),
    ("fd00::/8", ["http://[fd12::1]"], []),
    ("10.0.0.0/99,example.com:x,[", [], ["http://10.0.0.1", "http://example.com"]),
]


@pytest.mark.parametrize(("no_proxy", "direct", "by_proxy"), LEFT_OUT)
def test_hosts_in_no_proxy_are_requested_directly(environment, no_proxy, direct, by_proxy):
    environment.setenv("ALL_PROXY", PROXY)
    for name in ("NO_PROXY", "no_proxy"):
        environment.setenv(name, no_proxy)
        found = {address: proxy_for(httpx.URL(address)) is None for address in [*direct, *by_proxy]}
        assert found == dict.fromkeys(direct, True) | dict.fromkeys(by_proxy, False)
        environment.delenv(name)


def test_the_proxy_of_the_scheme_goes_before_that_of_all(environment):
    environment.setenv("ALL_PROXY", "all.test:1")
    environment.setenv("https_proxy", "http://user:pass%40word@secure.test:2")
    assert str(proxy_for(httpx.URL("http://mirror.test")).url) == "http://all.test:1"
    found = proxy_for(httpx.URL("https://mirror.test"))
    assert (str(found.url), found.raw_auth) == ("http://secure.test:2", (b"user", b"pass@word"))


@pytest.mark.parametrize("proxy", ["ftp://user:hidden@proxy.test", "http://", "http://proxy.test:port", "socks4://x"])
def test_invalid_proxy_is_rejected_without_its_password(environment, proxy):
    environment.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(ConfigError, match="HTTPS_PROXY") as failure:
        MirrorClient("https://mirror.test", "key")
    assert "hidden" not in str(failure.value)
    assert failure.value.__context__ is None


def test_socks_proxy_without_its_package_raises_with_the_cure(environment):
    environment.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    environment.setattr("mirror_sdk._protocol.proxy_and_tls_settings.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"socksio.*httpx\[socks\]"):
        MirrorClient("http://mirror.test", "key")


@pytest.mark.both_clients
def test_both_clients_agree(environment, client_of):
    """Send requests directly to the service, with either client, although a proxy is set for it."""
    environment.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    environment.setenv("NO_PROXY", "elsewhere.test,127.0.0.0/8")
    with MaliciousService(lambda _: [b"HTTP/1.1 204 No Content\r\n\r\n"]) as service:
        client_of(service.url).subscriptions.rules.delete_all()


def test_proxy_handshake_respects_the_timeout():
    """The handshake of SOCKS, whose proxy may never respond or never read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        began = None
        # The time starts when the connection is established.
        deadline = Deadline(BRIEFLY, lambda: 0.0 if began is None else time.monotonic() - began)
        stream = DeadlineBackend(OpenStreams()).connect_tcp("127.0.0.1", port, deadline)
        began = time.monotonic()
        with pytest.raises(httpcore.ReadTimeout):
            stream.read(10)
        with pytest.raises(httpcore.WriteTimeout):
            stream.write(b" " * 100_000_000)
        stream.close()


def send_request(client):
    """Send a request. The asynchronous client reads certificates with its first request, in a thread."""

    async def twice():
        async with client:
            with pytest.raises(ConfigError):
                await client.devices.list()
            await client.devices.list()

    if isinstance(client, AsyncMirrorClient):
        asyncio.run(twice())


@pytest.mark.parametrize("kind", [MirrorClient, AsyncMirrorClient])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_unreadable_certificates_raise_with_the_file(environment, tmp_path, kind, content):
    file = tmp_path / "certificates.pem"
    if content is not None:
        file.write_text(content)
    environment.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
        send_request(kind("https://mirror.test", "key"))
    kind("http://mirror.test", "key")


@pytest.mark.parametrize("address", [DEFAULT_BASE_URL, "https://mirror.test"])
def test_the_error_names_a_proxy_that_does_not_run(environment, client_of, address):
    """The default address of the client also counts, where a server may be running."""
    with socket.socket() as bound:
        # Bound but not listening: connections fail, and no other program can bind the port.
        bound.bind(("127.0.0.1", 0))
        check_named(environment, client_of, address, f"127.0.0.1:{bound.getsockname()[1]}")


def test_the_error_names_a_proxy_that_rejects_the_connection(environment, client_of):
    with MaliciousService(lambda _: [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"]) as proxy:
        check_named(environment, client_of, "https://mirror.test", f"127.0.0.1:{proxy.port}")


def check_named(environment, client_of, address, proxy):
    environment.setenv("ALL_PROXY", f"http://user:hidden@{proxy}")
    with pytest.raises(ConnectionFailed) as failure:
        client_of(address, max_retries=0).subscriptions.rules.delete_all()
    message = str(failure.value)
    assert f"through the proxy http://{proxy} " in message
    assert "or add its host to NO_PROXY" in message
    assert "mirror-server demo" not in message
    assert "hidden" not in message


def test_tls_to_a_service_without_tls_raises_with_the_cure(client_of, address):
    with pytest.raises(ConnectionFailed, match="begin its address with http://"):
        client_of(address.replace("http://", "https://"), max_retries=0).subscriptions.rules.delete_all()
