"""Whose failures are counted where proxies stand between: ``X-Forwarded-For`` of named proxies, and nobody else's."""

from __future__ import annotations

import ipaddress

import pytest

from mirror_server.senders import UNIX, Senders

PROXY, OTHER_PROXY, CLIENT, FORGED = "10.0.0.1", "10.0.0.2", "203.0.113.5", "198.51.100.9"
SITE, OTHER_SITE = "2001:db8:1:2::/64", "2001:db8:1:3::/64"
PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
URL = "/v3/devices"
MOST = 3


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender"),
    [
        (CLIENT, None, CLIENT),
        (CLIENT, FORGED, CLIENT),
        (PROXY, None, PROXY),
        (PROXY, CLIENT, CLIENT),
        (PROXY, f"{FORGED}, {CLIENT}", CLIENT),
        (PROXY, f"{FORGED}, {CLIENT}, {OTHER_PROXY}", CLIENT),
        (PROXY, f"{FORGED},{CLIENT} ,fd00::7,{OTHER_PROXY}", CLIENT),
        (PROXY, OTHER_PROXY, OTHER_PROXY),
        (PROXY, "nobody", PROXY),
        (PROXY, f"{FORGED}, nobody", PROXY),
        (PROXY, f"{FORGED}, ", PROXY),
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
        ("", CLIENT, UNIX),
        ("localhost", CLIENT, UNIX),
    ],
)
def test_only_what_named_proxies_say_is_believed(peer, forwarded, sender):
    environ = {"REMOTE_ADDR": peer} | ({} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded})
    assert Senders(PROXIES).sender_of(environ) == sender


@pytest.mark.parametrize("peer", ["", "localhost"])
def test_a_proxy_on_a_socket_file_can_be_named(peer):
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": CLIENT}
    assert Senders((UNIX,)).sender_of(environ) == CLIENT
    assert Senders(()).sender_of(environ) == UNIX


@pytest.fixture
def strict(server, tmp_path):
    """A server behind a proxy that takes a few failures a minute only."""
    folder = tmp_path / "strict"
    folder.mkdir()
    running = type(server)(folder, failed_keys_per_minute=MOST, trusted_proxies=PROXIES)
    yield running
    running.services.close()


def statuses(server, times, peer, forwarded):
    return [
        server.call(
            "x", "GET", URL, headers={"X-Forwarded-For": forwarded}, environ_overrides={"REMOTE_ADDR": peer}
        ).status_code
        for _ in range(times)
    ]


def test_clients_behind_a_proxy_are_counted_apart(strict):
    assert statuses(strict, MOST + 1, PROXY, CLIENT) == [401] * MOST + [429]
    assert statuses(strict, 1, OTHER_PROXY, f"{FORGED}, {CLIENT}") == [429], "the same client by another proxy"
    assert statuses(strict, 1, PROXY, "203.0.113.6") == [401]


def test_a_forged_header_does_not_give_a_new_count(strict):
    addresses = [f"198.51.100.{number}" for number in range(MOST + 1)]
    answered = [statuses(strict, 1, CLIENT, address)[0] for address in addresses]
    assert answered == [401] * MOST + [429]


def test_one_site_is_counted_together(strict):
    answered = [statuses(strict, 1, PROXY, f"2001:db8:1:2::{number}")[0] for number in range(MOST + 1)]
    assert answered == [401] * MOST + [429]
    assert statuses(strict, 1, PROXY, "2001:db8:1:3::1") == [401]
