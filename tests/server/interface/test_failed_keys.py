"""Only a client that repeatedly sends wrong keys is slowed down."""

import time

import pytest

from mirror_server.store import keys as stored_keys

CLIENT = "203.0.113.5"
MOST = 3
URL = "/v3/devices"
UNKNOWN = "ak_0123456789abcdef_" + "x" * 43


@pytest.fixture
def strict(new_server):
    """A server that allows few failures per minute."""
    return new_server(failed_keys_per_minute=MOST)


def forged(key):
    """The id of the key with another secret."""
    return key[:-4] + ("aaaa" if key[-4:] != "aaaa" else "bbbb")


def statuses(server, key, times, peer="127.0.0.1"):
    sent = {"environ_overrides": {"REMOTE_ADDR": peer}}
    return [server.call(key, "GET", URL, **sent).status_code for _ in range(times)]


@pytest.mark.parametrize("kind", ["forged", "revoked", "unknown", "malformed"])
def test_too_many_failures_are_429_until_the_time_of_retry_after(strict, check_error, monkeypatch, kind):
    key = strict.key()
    if kind == "revoked":
        strict.services.database.write(lambda session: stored_keys.revoke(session, key.split("_")[1], strict.now))
    wrong = {"forged": forged(key), "revoked": key, "unknown": UNKNOWN, "malformed": "x"}[kind]
    assert statuses(strict, wrong, MOST + 2) == [401] * MOST + [429] * 2
    response = strict.call(wrong, "GET", URL)
    wait_seconds = int(response.headers["Retry-After"])
    assert 1 <= wait_seconds <= 60
    assert str(wait_seconds) in check_error(response, 429).message
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + wait_seconds)
    assert statuses(strict, wrong, MOST + 1) == [401] * MOST + [429]


def test_valid_keys_are_accepted_despite_failures(strict):
    key, guessed = strict.key(), strict.key()
    for wrong in (forged(guessed), UNKNOWN):
        assert statuses(strict, wrong, MOST + 1)[-1] == 429
    for right in (key, guessed):
        assert statuses(strict, right, 2) == [200] * 2
    assert statuses(strict, guessed, 1, peer=CLIENT) == [200]
    # Other clients get 401 for a wrong key, because they have not failed yet.
    assert statuses(strict, UNKNOWN, 1, peer=CLIENT) == [401]
    # Requests without a key are not counted.
    assert statuses(strict, None, MOST * 3) == [401] * MOST * 3
