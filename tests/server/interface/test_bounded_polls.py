"""Where a poll takes a thread, only so many are held open; whatever is short is always answered."""

import pytest

from mirror_sdk.wire.errors import ErrorBody

QUERY = "after=latest&hold=20"
POLL = f"/v2/notification/pull?{QUERY}"
MOST = 2


@pytest.fixture
def small(server, tmp_path):
    """A server with room for few polls."""
    folder = tmp_path / "small"
    folder.mkdir()
    running = type(server)(folder, max_blocking_polls=MOST)
    running.device = running.add_device(running.key(), "d")
    yield running
    running.services.close()


@pytest.fixture
def held(small, held_poll):
    """As many polls as there is room for, each of a key of its own; they end with the test."""
    keys = [small.key() for _ in range(MOST)]
    yield [held_poll(key, QUERY, small) for key in keys]
    for key in keys:
        small.services.log.wake(key.split("_")[1])


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("path", [POLL, "/v2/notification/pull", "/v2/notification/events"])
def test_one_poll_too_many_is_429_and_may_come_again(small, held, path):
    key = small.key()
    answer = small.call(key, "GET", path)
    assert answer.status_code == 429
    assert ErrorBody.model_validate(answer.json, extra="forbid").reason == "TOO_MANY_POLLS"
    assert int(answer.headers["Retry-After"]) > 0
    again = small.call(key, "GET", path)
    assert again.status_code == 429, "a refused poll must leave nothing open"


def test_what_is_short_is_answered_meanwhile(small, held):
    key = small.key()
    assert small.call(key, "GET", f"/v3/devices/{small.device}/echo").status_code == 200
    assert small.place(key, small.device, "r", "GET", "/3303/0/5700").status_code == 202
    assert small.responses(key) == {"r": (200, None)}
    assert not any(poll.done() for poll in held)


def test_a_poll_that_finds_something_takes_no_room(small, held):
    key = small.key()
    small.place(key, small.device, "r", "GET", "/3303/0/5700")
    assert small.call(key, "GET", "/v2/notification/pull?after=0&hold=20").status_code == 200
    assert small.call(key, "GET", "/v2/notification/pull?after=0&hold=0").status_code == 200
    assert small.call(key, "GET", "/v2/notification/pull?hold=20").status_code == 200


def test_an_ended_stream_gives_its_place_back(small):
    key = small.key()
    for _ in range(3 * MOST):
        stream = small.call(key, "GET", "/v2/notification/events")
        assert stream.status_code == 200
        stream.close()


def test_one_application_has_a_share_of_the_places(server, tmp_path, held_poll):
    folder = tmp_path / "shared out"
    folder.mkdir()
    small = type(server)(folder, max_blocking_polls=4, poll_share=0.5)
    greedy, other = small.key(), small.key()
    held = [held_poll(greedy, QUERY, small) for _ in range(2)]
    for path in (POLL, "/v2/notification/events"):
        refused = small.call(greedy, "GET", path)
        assert (refused.status_code, refused.json["reason"]) == (429, "TOO_MANY_POLLS")
        assert "2 polls and streams are open with this key" in refused.json["message"]
    held.append(held_poll(other, QUERY, small))
    assert small.call(greedy, "GET", "/v3/devices").status_code == 200
    for key in (greedy, other):
        small.services.log.wake(key.split("_")[1])
    assert [poll.result(10).status_code for poll in held] == [204] * 3
    assert small.call(greedy, "GET", "/v2/notification/pull?after=latest&hold=1").status_code == 204
    small.services.close()
