"""Who comes with wrong keys again and again is slowed down, and nobody else.

Where proxies stand between, ``X-Forwarded-For`` of named proxies says who that is, and nobody else's.
"""

import ipaddress
import time

import pytest

from mirror_server.config import UNIX
from mirror_server.store import keys as stored_keys
from mirror_server.web.trusted_proxies import TrustedProxies

PROXY, OTHER_PROXY, CLIENT, FORGED = "10.0.0.1", "10.0.0.2", "203.0.113.5", "198.51.100.9"
SITE, OTHER_SITE = "2001:db8:1:2::/64", "2001:db8:1:3::/64"
PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
MOST = 3
URL = "/v3/devices"
UNKNOWN = "ak_0123456789abcdef_" + "x" * 43


@pytest.fixture
def strict(new_server):
    """A server that takes a few failures a minute only, and believes the proxies it was told of."""
    return new_server(failed_keys_per_minute=MOST, trusted_proxies=PROXIES)


def forged(key):
    """The key's id with a secret that is not the key's."""
    return key[:-4] + ("aaaa" if key[-4:] != "aaaa" else "bbbb")


def statuses(server, key, times, peer="127.0.0.1", forwarded=None):
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    sent = {"headers": headers, "environ_overrides": {"REMOTE_ADDR": peer}}
    return [server.call(key, "GET", URL, **sent).status_code for _ in range(times)]


@pytest.mark.parametrize("kind", ["forged", "revoked", "unknown", "malformed"])
def test_too_many_failures_are_429_with_the_time_to_wait(strict, refused, kind):
    key = strict.key()
    if kind == "revoked":
        strict.services.database.write(lambda session: stored_keys.revoke(session, key.split("_")[1], strict.now))
    wrong = {"forged": forged(key), "revoked": key, "unknown": UNKNOWN, "malformed": "x"}[kind]
    assert statuses(strict, wrong, MOST + 2) == [401] * MOST + [429] * 2
    answer = strict.call(wrong, "GET", URL)
    wait_seconds = answer.headers["Retry-After"]
    assert 1 <= int(wait_seconds) <= 60
    assert wait_seconds in refused(answer, 429).message


def test_another_key_from_the_same_address_is_not_shut_out(strict):
    key, guessed = strict.key(), strict.key()
    assert statuses(strict, forged(guessed), MOST + 1)[-1] == 429
    assert statuses(strict, UNKNOWN, MOST + 1)[-1] == 429
    assert statuses(strict, key, 5) == [200] * 5


def test_a_guessed_key_is_not_shut_out_at_another_address(strict):
    key = strict.key()
    assert statuses(strict, forged(key), MOST + 1)[-1] == 429
    assert statuses(strict, key, 1, peer=CLIENT) == [200]


def test_who_knows_the_id_of_a_key_does_not_shut_out_its_owner(strict):
    key = strict.key()
    for _ in range(2):
        assert statuses(strict, forged(key), MOST + 1)[-1] == 429
        assert statuses(strict, key, 2) == [200] * 2


def test_after_the_time_told_failures_are_counted_anew(strict, monkeypatch):
    key = strict.key()
    statuses(strict, forged(key), MOST + 1)
    wait_seconds = int(strict.call(forged(key), "GET", URL).headers["Retry-After"])
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + wait_seconds)
    assert statuses(strict, forged(key), MOST + 1) == [401] * MOST + [429]


def test_requests_without_a_key_are_not_counted(strict):
    assert statuses(strict, None, MOST * 3) == [401] * MOST * 3


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
    assert TrustedProxies(PROXIES).client_of(environ) == sender


@pytest.mark.parametrize("peer", ["", "localhost"])
def test_a_proxy_on_a_socket_file_can_be_named(peer):
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": CLIENT}
    assert TrustedProxies((UNIX,)).client_of(environ) == CLIENT
    assert TrustedProxies(()).client_of(environ) == UNIX


def test_clients_behind_a_proxy_are_counted_apart(strict):
    assert statuses(strict, "x", MOST + 1, PROXY, CLIENT) == [401] * MOST + [429]
    assert statuses(strict, "x", 1, OTHER_PROXY, f"{FORGED}, {CLIENT}") == [429], "the same client by another proxy"
    assert statuses(strict, "x", 1, PROXY, "203.0.113.6") == [401]


def test_a_forged_header_does_not_give_a_new_count(strict):
    addresses = [f"198.51.100.{number}" for number in range(MOST + 1)]
    answered = [statuses(strict, "x", 1, CLIENT, address)[0] for address in addresses]
    assert answered == [401] * MOST + [429]


def test_one_site_is_counted_together(strict):
    answered = [statuses(strict, "x", 1, PROXY, f"2001:db8:1:2::{number}")[0] for number in range(MOST + 1)]
    assert answered == [401] * MOST + [429]
    assert statuses(strict, "x", 1, PROXY, "2001:db8:1:3::1") == [401]
