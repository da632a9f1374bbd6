"""Where a poll takes a thread, only so many are held open; whatever is short is always answered."""

import pytest

QUERY = "after=latest&hold=50"
POLL = f"/v2/notification/pull?{QUERY}"
MOST = 2


@pytest.fixture
def small(new_server):
    """A server with room for few polls."""
    running = new_server(max_blocking_polls=MOST)
    running.device = running.add_device(running.key(), "d")
    return running


@pytest.fixture
def held(small, held_poll):
    """As many polls as there is room for, each of a key of its own; they end with the test."""
    keys = [small.key() for _ in range(MOST)]
    yield [held_poll(key, QUERY, small) for key in keys]
    for key in keys:
        small.services.log.wake(key.split("_")[1])


def test_one_poll_too_many_is_429_while_short_requests_are_answered(small, held, refused):
    key = small.key()
    for path in (POLL, "/v2/notification/pull") * 2:
        answer = small.call(key, "GET", path)
        assert refused(answer, 429).reason == "TOO_MANY_POLLS"
        assert int(answer.headers["Retry-After"]) > 0
    assert small.call(key, "GET", f"/v3/devices/{small.device}/echo").status_code == 200
    assert small.place(key, small.device, "r", "GET", "/3303/0/5700").status_code == 202
    assert small.responses(key) == {"r": (200, None)}
    # A poll that finds something takes no room.
    for query in ("after=0&hold=20", "after=0&hold=0", "hold=20"):
        assert small.call(key, "GET", f"/v2/notification/pull?{query}").status_code == 200
    assert not any(poll.done() for poll in held)
