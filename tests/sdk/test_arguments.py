"""Invalid arguments raise an error with the name and the fix before anything is sent."""

import itertools
import math
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import numpy as np
import pandas as pd
import pytest
from changed_responses import Between
from resource_paths import SWITCH

from mirror_sdk import ClientClosed, ConfigError, InvalidValue, MirrorClient
from mirror_sdk._arguments import instant

NO_SPANS = ["5", -1, math.nan, True]

CALLS = {
    "no address": (lambda c, d: MirrorClient(None, "a-key"), ConfigError, "base_url"),
    "a number for an address": (lambda c, d: MirrorClient(8080, "a-key"), ConfigError, "base_url"),
    "no key": (lambda c, d: MirrorClient("http://localhost", None), ConfigError, "api_key"),
    "an empty key": (lambda c, d: MirrorClient("http://localhost", " "), ConfigError, "api_key is empty"),
    "no device id": (lambda c, d: c.get_device(None), TypeError, "device_id must be a str, not None"),
    "a number for a path": (lambda c, d: c.requests.begin_read(d, 3303), TypeError, "path must be a str, not int"),
    "a number for an async-id": (
        lambda c, d: c.requests.begin_read(d, SWITCH, async_id=1),
        TypeError,
        "async_id must be a",
    ),
    "an empty async-id": (
        lambda c, d: c.requests.begin_read(d, SWITCH, async_id=""),
        ValueError,
        "async_id '' must be 1 to",
    ),
    "an argument that is not a text": (lambda c, d: c.execute(d, "/3/0/4", 3), TypeError, "argument must be a str"),
    "an id that no address holds": (lambda c, d: c.get_device("d" * 100_000), InvalidValue, "cannot be sent"),
    "a limit below 0": (lambda c, d: c.devices.list(limit=-1), InvalidValue, "limit=-1 must be a whole number"),
    "a limit that is a text": (lambda c, d: c.devices.list(limit="5"), InvalidValue, "limit='5' must be a whole"),
    "several names": (lambda c, d: c.devices.list(endpoint_name=["a"]), ValueError, "use endpoint_name__in"),
    "no number of events": (lambda c, d: c.events(limit=1.5), InvalidValue, "limit=1.5 must be a whole number"),
    "no time for events": (lambda c, d: c.events(timeout=None), InvalidValue, "timeout=None must be a number"),
    "one device for a list": (lambda c, d: c.state_frame("light-01"), TypeError, "write devices=['light-01']"),
    "one path for a list": (lambda c, d: c.state_frame(paths="/3303/*"), TypeError, "paths='/3303/*' must be a list"),
    "no devices in a table": (lambda c, d: c.state_frame([None]), TypeError, "each of devices must be a str"),
    "a pattern that matches no path": (lambda c, d: c.state_frame(paths=["3303"]), InvalidValue, "'3303' matches no"),
    "a text for writes": (
        lambda c, d: c.plan("light-01"),
        InvalidValue,
        "writes is a string, 'light-01'; pass a table",
    ),
    "an invalid callback": (lambda c, d: c.watch(3), TypeError, "callback=3 cannot be called"),
    "a pattern of a watch": (lambda c, d: c.watch(print, paths=["3303"]), InvalidValue, "'3303' matches no"),
    "a path of a watch": (lambda c, d: c.watch(print, paths=[3303]), TypeError, "each of paths must be a str"),
    "a rotation that is a text": (lambda c, d: c.record("r", rotate_bytes="1"), InvalidValue, "rotate_bytes='1' must"),
}


def test_an_invalid_argument_is_rejected_with_its_name_and_the_cure(client, device_id, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (call, kind, words) in CALLS.items():
        with pytest.raises(kind) as caught:
            call(client, device_id)
        assert words in str(caught.value), name


def test_an_invalid_timeout_is_rejected_before_the_request_is_sent(client, device_id):
    request = client.requests.begin_read(device_id, SWITCH)
    calls = [
        lambda timeout: client.read_value(device_id, SWITCH, timeout=timeout),
        lambda timeout: client.write_value(device_id, SWITCH, True, timeout=timeout),
        lambda timeout: client.execute(device_id, SWITCH, timeout=timeout),
        lambda timeout: client.events(timeout=timeout),
        request.result,
    ]
    for call, timeout in itertools.product(calls, NO_SPANS):
        with pytest.raises(InvalidValue, match="must be a number of seconds, 0 or more"):
            call(timeout)
    assert client.get_device(device_id)[SWITCH].desired is None
    assert request.result(np.float64(10)).python is False


@pytest.mark.parametrize("timeout", [*NO_SPANS, 0, math.inf, None])
def test_a_client_has_a_time_out_that_ends(timeout):
    with pytest.raises(ConfigError, match=r"timeout=.* must be a number of seconds above 0"):
        MirrorClient("http://localhost", "a-key", timeout=timeout)


def test_an_instant_without_a_zone_is_rejected(client, device_id):
    state = client.state_frame()
    for now in (datetime(2026, 1, 5), "2026-01-05", pd.NaT):
        for call in (partial(state.mirror.stale, "1h"), state.mirror.drift):
            with pytest.raises(InvalidValue, match=r"tzinfo=UTC|write 2026-01-05T00:00:00Z"):
                call(now=now)
    later = datetime.now(UTC) + timedelta(hours=2)
    assert len(state.mirror.stale("1h", now=later, never_read=True)) == 3


CLOSED = [
    lambda c: c.get_device("d"),
    lambda c: c.devices.list(),
    lambda c: c.requests.begin_read("d", SWITCH),
    lambda c: c.write_value("d", SWITCH, True),
    lambda c: c.devices.explain("d", SWITCH),
    lambda c: c.fleet.snapshot(),
    lambda c: c.plan([("d", SWITCH, True)]),
    lambda c: c.service.is_healthy(),
    lambda c: c.watch(print),
    lambda c: c.record("run.parquet"),
    lambda c: list(c.events(timeout=0)),
    lambda c: c.notifications.use_long_polling(),
]


def test_a_closed_client_raises_client_closed(client, device_id, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request = client.requests.begin_read(device_id, SWITCH)
    events = client.events()
    client.close()
    client.close()
    # Earlier requests and iterators report it as well.
    for call in (*CLOSED, lambda _: request.result(), lambda _: next(iter(events))):
        with pytest.raises(ClientClosed, match="this client is closed; make a new one"):
            call(client)
    assert "not connected" not in repr(client.notifications.status())


@pytest.mark.both_clients
def test_a_client_closed_during_a_poll_raises_client_closed(client_of):
    class ClosedAndBroken(Between):
        def handle_request(self, request):
            client.close()
            raise httpx.ReadError("Bad file descriptor", request=request)

        async def handle_async_request(self, request):
            await client._wrapped.aclose()
            raise httpx.ReadError("closed", request=request)

    client = client_of(transport=ClosedAndBroken(None))
    with pytest.raises(ClientClosed):
        client.devices.list()


# Instants


NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "hour"),
    [
        (NOON, 12.0),
        ("2026-01-05T09:00:00+01:00", 8.0),
        (timedelta(hours=2), 10.0),
        ("2h", 10.0),
        ("1h30min", 10.5),
        ("90s", 11.975),
        ("0.5D", 0.0),
    ],
)
def test_an_instant_is_a_time_its_text_or_how_long_ago_it_was(value, hour):
    assert instant("begin", value, lambda: NOON) == datetime(2026, 1, 5, tzinfo=UTC) + timedelta(hours=hour)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("yesterday", r"begin='yesterday' is not a time; pass one like .* or how long ago it was, like '2h'"),
        (5, r"begin=5 is not a time"),
        (timedelta(hours=-1), r"is not a time"),
        ("2026-01-05", r"has no time zone; write 2026-01-05T00:00:00Z"),
        (datetime(2026, 1, 5), r"has no time zone; pass one with begin.replace\(tzinfo=UTC\)"),
        ("99999999w", r"beyond the years 1 to 9999"),
    ],
)
def test_an_invalid_instant_is_rejected_with_the_cure(value, reason):
    with pytest.raises(InvalidValue, match=reason):
        instant("begin", value, lambda: NOON)
