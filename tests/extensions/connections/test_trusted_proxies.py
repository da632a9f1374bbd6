"""The client of a request: ``X-Forwarded-For`` counts only if a trusted proxy sent it."""

import ipaddress

import pytest
from asgi_requests import scope_of

from mirror_server.extensions.connections.settings import UNIX
from mirror_server.extensions.connections.trusted_proxies import TrustedProxies
from mirror_server.web.wsgi_adapter import environ_of

PROXY, OTHER_PROXY, CLIENT, FORGED = "10.0.0.1", "10.0.0.2", "203.0.113.5", "198.51.100.9"
SITE, OTHER_SITE = "2001:db8:1:2::/64", "2001:db8:1:3::/64"
PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
MOST = 3
URL = "/v3/devices"
UNKNOWN = "ak_0123456789abcdef_" + "x" * 43


@pytest.fixture
def strict(new_server):
    """A server that accepts few failures per minute, and has trusted proxies."""
    return new_server(failed_keys_per_minute=MOST, trusted_proxies=PROXIES)


def statuses(server, key, times, peer="127.0.0.1", forwarded=None):
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    sent = {"headers": headers, "environ_overrides": {"REMOTE_ADDR": peer}}
    return [server.call(key, "GET", URL, **sent).status_code for _ in range(times)]


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender"),
    [
        (CLIENT, FORGED, CLIENT),
        (PROXY, None, PROXY),
        (PROXY, CLIENT, CLIENT),
        (PROXY, f"{FORGED}, {CLIENT}", CLIENT),
        (PROXY, f"{FORGED}, {CLIENT}, {OTHER_PROXY}", CLIENT),
        (PROXY, f"{FORGED},{CLIENT} ,fd00::7,{OTHER_PROXY}", CLIENT),
        (PROXY, OTHER_PROXY, OTHER_PROXY),
        (PROXY, f"{FORGED}, nobody", PROXY),
        (PROXY, f"nobody, {CLIENT}", CLIENT),
        (PROXY, f"{CLIENT}:4711", CLIENT),
        (PROXY, "2001:db8:1:2::9", SITE),
        (PROXY, "[2001:db8:1:2::9]", SITE),
        (PROXY, "[2001:db8:1:2::9]:4711", SITE),
        (PROXY, f"::ffff:{CLIENT}", CLIENT),
        (f"::ffff:{PROXY}", CLIENT, CLIENT),
        ("2001:db8:1:2:3:4:5:6", None, SITE),
        ("2001:db8:1:3::1", FORGED, OTHER_SITE),
        ("fe80::1%eth0", None, "fe80::/64"),
        ("localhost", CLIENT, UNIX),
    ],
)
def test_client_address_is_read_from_trusted_proxies_alone(peer, forwarded, sender):
    environ = {"REMOTE_ADDR": peer} | ({} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded})
    assert TrustedProxies(PROXIES).client_of(environ) == sender


def test_header_of_several_proxies_is_read_completely():
    scope = scope_of(UNKNOWN, URL)
    scope["headers"] += [(b"x-forwarded-for", address.encode()) for address in (FORGED, CLIENT, OTHER_PROXY)]
    environ = environ_of(scope) | {"REMOTE_ADDR": PROXY}
    assert TrustedProxies(PROXIES).client_of(environ) == CLIENT


def test_proxy_on_a_socket_file_can_be_named():
    for peer in ("", "localhost"):
        environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": CLIENT}
        assert TrustedProxies((UNIX,)).client_of(environ) == CLIENT
        assert TrustedProxies(()).client_of(environ) == UNIX


def test_failures_are_counted_per_client_and_site_and_not_by_its_own_header(strict):
    assert statuses(strict, "x", MOST + 1, PROXY, CLIENT) == [401] * MOST + [429]
    assert statuses(strict, "x", 1, OTHER_PROXY, f"{FORGED}, {CLIENT}") == [429], "the same client by another proxy"
    assert statuses(strict, "x", 1, PROXY, "203.0.113.6") == [401]
    direct = [statuses(strict, "x", 1, "203.0.113.7", f"198.51.100.{number}")[0] for number in range(MOST + 1)]
    assert direct == [401] * MOST + [429]
    of_a_site = [statuses(strict, "x", 1, PROXY, f"2001:db8:1:2::{number}")[0] for number in range(MOST + 1)]
    assert of_a_site == [401] * MOST + [429]
    assert statuses(strict, "x", 1, PROXY, "2001:db8:1:3::1") == [401]
