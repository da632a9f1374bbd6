"""Open polls that need a thread each are limited. Short requests always get a response."""

import pytest

QUERY = "after=latest&hold=50"
POLL = f"/v2/notification/pull?{QUERY}"
MOST = 2


@pytest.fixture
def small(new_server):
    """A server that allows few open polls."""
    running = new_server(max_blocking_polls=MOST)
    running.device = running.add_device(running.key(), "d")
    return running


@pytest.fixture
def open_polls(small, open_poll):
    """The maximum number of open polls, each with its own key. They end with the test."""
    keys = [small.key() for _ in range(MOST)]
    yield [open_poll(key, QUERY, small) for key in keys]
    for key in keys:
        small.services.log.wake(key.split("_")[1])


def test_poll_beyond_the_limit_is_429_while_short_requests_succeed(small, open_polls, check_error):
    key = small.key()
    for path in (POLL, "/v2/notification/pull") * 2:
        response = small.call(key, "GET", path)
        assert check_error(response, 429).reason == "TOO_MANY_POLLS"
        assert int(response.headers["Retry-After"]) > 0
    assert small.call(key, "GET", f"/v3/devices/{small.device}/echo").status_code == 200
    assert small.submit(key, small.device, "r", "GET", "/3303/0/5700").status_code == 202
    assert small.responses(key) == {"r": (200, None)}
    # A poll that finds entries does not count.
    for query in ("after=0&hold=20", "after=0&hold=0", "hold=20"):
        assert small.call(key, "GET", f"/v2/notification/pull?{query}").status_code == 200
    assert not any(poll.done() for poll in open_polls)
