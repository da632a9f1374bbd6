"""Stale values by reporting interval: subscribed or auto-observed resources, their max-age and their usual interval."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from device_objects import device as device_object
from device_objects import resource
from resource_paths import TEMPERATURE

from mirror_sdk.frames import state_frame
from mirror_sdk.frames.staleness import silent_rows

REPORTED_AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def is_stale(
    after, *, path=TEMPERATURE, subscribed=True, raw=True, contact=None, pause=None, least=None, holds=None, **reported
):
    """Return whether the one value of a device is stale at some time after its report."""
    value = resource(path, b"21", subscribed=subscribed, reported_at=REPORTED_AT)
    value["reported"] |= {"expires_at": None if holds is None else REPORTED_AT + holds, **reported}
    device = device_object(value, device_id="d", created_at=REPORTED_AT + after)
    state = state_frame([device], raw=raw, taken_at=device.created_at)
    pauses = pd.Series([pd.NaT if pause is None else pause], index=state.index, dtype="timedelta64[ms]")
    contacts = {} if contact is None else {"d": REPORTED_AT + contact}
    (found,) = silent_rows(state, contacts=contacts, longest_pauses=pauses, least=least)
    return found


@pytest.mark.parametrize(
    ("limit", "options"),
    [
        (DAY, {}),
        (HOUR, {"pause": timedelta(seconds=30)}),
        (9 * HOUR, {"pause": 3 * HOUR}),
        (timedelta(seconds=60), {"least": timedelta(seconds=60)}),
        (9 * HOUR, {"pause": 3 * HOUR, "least": timedelta(seconds=60)}),
        (2 * DAY, {"contact": DAY}),
        (5 * HOUR, {"contact": 4 * HOUR, "pause": timedelta(seconds=30)}),
        (timedelta(seconds=60), {"holds": timedelta(seconds=60)}),
        # The max-age of the device counts, regardless of later contacts.
        (timedelta(seconds=60), {"holds": timedelta(seconds=60), "contact": HOUR, "pause": HOUR}),
        (DAY, {"subscribed": False, "origin": "auto_observation"}),
        # A contact before the report does not matter.
        (DAY, {"contact": -HOUR}),
    ],
)
def test_a_value_that_comes_by_itself_is_stale_after_its_limit_and_not_before(limit, options):
    assert not is_stale(limit, **options)
    assert is_stale(limit + timedelta(seconds=1), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"subscribed": False},
        {"subscribed": False, "origin": "read", "holds": HOUR},
        {"subscribed": False, "origin": "auto_observation", "raw": False},
        {"path": "/3303/0/5701"},
        {"path": "/3/0/2"},
        {"path": "/3/0/2", "holds": HOUR},
        {"value": None, "reported_at": None},
    ],
)
def test_read_constant_or_unreported_values_are_never_stale(options):
    assert not is_stale(400 * DAY, **options)
