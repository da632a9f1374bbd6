"""Who comes with wrong keys again and again is slowed down, and nobody else."""

import time

import pytest

from mirror_sdk.wire.errors import ErrorBody
from mirror_server.store import keys as stored_keys

MOST = 3
URL = "/v3/devices"
UNKNOWN = "ak_0123456789abcdef_" + "x" * 43


@pytest.fixture
def strict(server, tmp_path):
    """A server that takes a few failures a minute only."""
    folder = tmp_path / "strict"
    folder.mkdir()
    running = type(server)(folder, failed_keys_per_minute=MOST)
    yield running
    running.services.close()


def forged(key):
    """The key's id with a secret that is not the key's."""
    return key[:-4] + ("aaaa" if key[-4:] != "aaaa" else "bbbb")


def statuses(server, key, times, **environ):
    return [server.call(key, "GET", URL, environ_overrides=environ).status_code for _ in range(times)]


@pytest.mark.parametrize("kind", ["forged", "revoked", "unknown", "malformed"])
def test_too_many_failures_are_429_with_the_time_to_wait(strict, kind):
    key = strict.key()
    if kind == "revoked":
        strict.services.database.write(lambda session: stored_keys.revoke(session, key.split("_")[1], strict.now))
    wrong = {"forged": forged(key), "revoked": key, "unknown": "ak_0123456789abcdef_" + "x" * 43, "malformed": "x"}[
        kind
    ]
    assert statuses(strict, wrong, MOST + 2) == [401] * MOST + [429] * 2
    refused = strict.call(wrong, "GET", URL)
    assert ErrorBody.model_validate(refused.json, extra="forbid").type == "limit_exceeded"
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.headers["Retry-After"] in refused.json["message"]


def test_another_key_from_the_same_address_is_not_shut_out(strict):
    key, guessed = strict.key(), strict.key()
    assert statuses(strict, forged(guessed), MOST + 1)[-1] == 429
    assert statuses(strict, UNKNOWN, MOST + 1)[-1] == 429
    assert statuses(strict, key, 5) == [200] * 5


def test_a_guessed_key_is_not_shut_out_at_another_address(strict):
    key = strict.key()
    assert statuses(strict, forged(key), MOST + 1)[-1] == 429
    assert statuses(strict, key, 1, REMOTE_ADDR="10.9.8.7") == [200]


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
