"""The history table, built from batches of a history and from an events table. Source: wire.md 10."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from resource_paths import TEMPERATURE

from mirror_sdk.arrow_tables.history import HISTORY_EVENTS, HistoryTableBuilder, history_of_batch
from mirror_sdk.arrow_tables.units import NamedUnits
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import HISTORY_RAW_SCHEMA, HISTORY_SCHEMA, events_frame, history_frame
from mirror_sdk.history.batch_checks import COLUMNS
from mirror_sdk.table_formats import to_pandas
from mirror_sdk.values import decode
from mirror_sdk.wire.history import ORIGINS

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def row(**members):
    return {"what": "reported", "changed_at": NOON, "revision": 1, "device_id": "d1", "path": TEMPERATURE, **members}


def batch(*rows):
    """Return rows in wire format, with missing values for absent members."""
    return pa.RecordBatch.from_pylist(list(rows), schema=COLUMNS)


def frame_of(*batches, raw=False, state=None, tz=None):
    parts = HistoryTableBuilder(raw=raw)
    for one in batches:
        parts.add(history_of_batch(one, raw=raw))
    state_table = None if state is None else pa.Table.from_pandas(state, preserve_index=False)
    tables, metadata = parts.finish({"server": "here"}, units=NamedUnits(state_table))
    return to_pandas(tables, metadata, tz=tz)


def event(kind=EventKind.OBSERVATION, minute=0, **members):
    at = NOON + timedelta(minutes=minute)
    fields = {"device_id": "d1", "endpoint_name": "Hall", "changed_at": at, "received_at": at + timedelta(seconds=1)}
    return Event(kind=kind, **(fields | members))


def observed(raw, minute=0, path=TEMPERATURE, **members):
    return event(minute=minute, path=path, value=decode(raw, "text/plain", path), **members)


def test_every_member_has_its_column():
    end = NOON + timedelta(minutes=3)
    fields = {"origin": "write", "status": 2, "category": "TIMEOUT", "requested_at": NOON, "value": b"7"}
    frame = frame_of(
        batch(row(device_id=None, path=None, what="gap", until=end, revision=1)),
        batch(row(path=None, what="registration", endpoint_name="Hall", received_at=end, revision=2)),
        batch(row(what="desired", revision=3, **fields)),
    )
    assert frame["event"].tolist() == ["gap", "registration", "write"]
    missing = frame[["device_id", "path", "reason"]].isna().values.tolist()
    assert missing == [[True, True, True], [False, True, True], [False, False, False]]
    gap, registered, write = (frame.iloc[index] for index in range(3))
    assert (gap["changed_at"], gap["until"]) == (NOON, end)
    assert (registered["endpoint_name"], registered["received_at"]) == ("Hall", end)
    assert [write[name] for name in fields if name != "value"] == ["write", "failure", "TIMEOUT", NOON]
    assert write["value_num"] == 7
    assert write["reason"] == "the device did not respond in time; read the resource to see whether it acted"
    assert frame["revision"].tolist() == [1, 2, 3]
    assert frame.attrs["mirror"] == {"server": "here", "devices": 1, "complete": False}
    assert frame["status"].cat.ordered
    assert tuple(frame["event"].cat.categories) == HISTORY_EVENTS
    assert tuple(frame["origin"].cat.categories) == ORIGINS


def test_plain_texts_are_read_like_dictionaries():
    source = batch(row(value=b"1", origin="read"))
    kinds = {field.name: pa.string() if pa.types.is_dictionary(field.type) else field.type for field in COLUMNS}
    plain = pa.record_batch({name: source[name].cast(kind) for name, kind in kinds.items()})
    assert_frame_equal(frame_of(plain), frame_of(source))


def test_a_word_of_a_later_version_is_missing():
    frame = frame_of(batch(row(what="teleported", origin="dream", value=b"21.5")))
    assert frame[["event", "origin"]].isna().all(axis=None)
    assert frame["value_num"].tolist() == [21.5]


def test_a_part_of_a_batch_has_no_other_words():
    source = batch(row(device_id="d1"), row(device_id="d2"))
    assert frame_of(source.slice(1))["device_id"].cat.categories.tolist() == ["d2"]


def test_an_empty_table_has_the_same_columns():
    for raw, schema in ((False, HISTORY_SCHEMA), (True, HISTORY_RAW_SCHEMA)):
        empty, full = frame_of(raw=raw), frame_of(batch(row(value=b"1")), raw=raw)
        assert empty.columns.tolist() == full.columns.tolist() == schema.names
        kinds = [[getattr(one, "name", one) for one in frame.dtypes] for frame in (empty, full)]
        assert kinds[0] == kinds[1]
        assert empty.attrs["mirror"]["complete"]


def test_the_units_that_devices_name_are_those_of_the_mirror():
    state = pd.DataFrame({"device_id": ["d1", "d3"], "path": [TEMPERATURE] * 2, "unit": ["Far", "Cel"]})
    rows = [row(device_id=name, path=path) for name, path in (("d1", TEMPERATURE), ("d2", TEMPERATURE), ("d1", None))]
    frame = frame_of(batch(*rows), state=state)
    assert frame["unit"].astype(object).where(frame["unit"].notna(), None).tolist() == ["Far", None, None]


def test_events_become_a_history():
    read = event(EventKind.ASYNC_RESPONSE, minute=3, path=TEMPERATURE, value=decode(b"23", None, TEMPERATURE))
    events = [
        event(EventKind.REGISTRATION, minute=5),
        observed(b"22.5", minute=2),
        observed(b"21.5", minute=1),
        read,
        event(EventKind.ASYNC_RESPONSE, minute=4, path=TEMPERATURE, status=200),
        observed(b"on", minute=0, path="/3/0/0", device_id="d0", changed_at=None),
        event(EventKind.UNKNOWN),
    ]
    frame = history_frame(events_frame(events, server="there"))
    assert frame["device_id"].tolist() == ["d0", *["d1"] * 4]
    assert frame["event"].tolist() == ["reported", "registration", *["reported"] * 3]
    assert frame["origin"].astype(object).iloc[2:].tolist() == ["observation", "observation", "read"]
    assert frame["value_num"].dropna().tolist() == [21.5, 22.5, 23]
    assert frame["changed_at"].iloc[0] == pd.Timestamp(NOON + timedelta(seconds=1))
    assert frame[["revision", "status", "requested_at", "until"]].isna().all(axis=None)
    metadata = frame.attrs["mirror"]
    assert (metadata["devices"], metadata["complete"], metadata["server"]) == (2, True, "there")
    # Rows of one instant stay in the order of the log.
    at_once = history_frame(events_frame([observed(b"3"), observed(b"1"), observed(b"2")]))
    assert at_once["value_num"].tolist() == [3, 1, 2]


def test_loss_extends_from_the_event_before_to_the_one_after():
    lost = Event(kind=EventKind.GAP, received_at=NOON, first_seq=3, seq=8)
    for events, expected in (
        ([lost, observed(b"1", 1), lost, observed(b"2", 9), lost], [(None, 1), (1, 9), (9, None)]),
        # A late event next to it does not move it.
        ([observed(b"1", 5), observed(b"2", 1), lost, observed(b"3", 2), observed(b"4", 9)], [(5, 9)]),
    ):
        frame = history_frame(events_frame(events))
        gaps = frame.loc[frame["event"] == "gap", ["changed_at", "until"]]
        found = [[None if pd.isna(at) else (at - NOON).total_seconds() / 60 for at in gaps[name]] for name in gaps]
        assert list(zip(*found, strict=True)) == expected
        assert not frame.attrs["mirror"]["complete"]


def test_the_payloads_of_events_are_there_on_request():
    events = events_frame([observed(b"21.5")], raw=True)
    assert history_frame(events, raw=True)["value_raw"].tolist() == [b"21.5"]
    assert "value_raw" not in history_frame(events)
    with pytest.raises(InvalidValue, match="raw=True"):
        history_frame(events.drop(columns="value_raw"), raw=True)
    for name in ("event", "changed_at", "value_kind"):
        with pytest.raises(InvalidValue, match=f"lacks {name};"):
            history_frame(events.drop(columns=name))


def test_events_in_another_zone_make_the_same_table():
    events = [observed(b"1"), event(EventKind.EXPIRED, minute=2)]
    there = history_frame(events_frame(events, tz="Europe/Berlin"))
    assert_frame_equal(there, history_frame(events_frame(events)))
    assert str(history_frame(events_frame(events), tz="Europe/Berlin")["changed_at"].dt.tz) == "Europe/Berlin"
