"""client.fleet.snapshot and frame.mirror.refresh, over both clients. Source: wire.md 7."""

import pandas as pd
import pyarrow as pa
import pytest
from changed_responses import LIGHT, RESOURCES, TEMPERATURE, Between, without_arrow, without_snapshots

from mirror_sdk import SnapshotWarning
from mirror_sdk.errors import BadRequest, InvalidValue, NotFound
from mirror_sdk.frames import from_arrow, read_parquet, to_arrow
from mirror_sdk.wire.snapshot import ARROW
from mirror_server.extensions.snapshots import service as snapshots
from mirror_server.store import devices


def meta(frame):
    return frame.attrs["mirror"]


@pytest.mark.filterwarnings("ignore::mirror_sdk.EmptyTableWarning")
@pytest.mark.parametrize("raw", [False, True])
def test_it_is_the_state_table(client, request, monkeypatch, raw):
    # The table of a mirror without devices is empty and has the same columns.
    pd.testing.assert_frame_equal(client.fleet.snapshot(raw=raw), client.state_frame(raw=raw))
    assert meta(client.fleet.snapshot())["devices"] == 0
    request.getfixturevalue("ids")
    monkeypatch.setattr(snapshots, "_DEVICES_PER_PAGE", 3)
    for paths in (None, [TEMPERATURE], [LIGHT, "/3/*"], ["/33*"], ["/nothing"], []):
        for compression in ("none", "zstd"):
            found = client.fleet.snapshot(paths=paths, raw=raw, compression=compression)
            expected = client.state_frame(paths=paths, raw=raw)
            pd.testing.assert_frame_equal(found, expected)
            assert {name: meta(found)[name] for name in meta(expected)} == meta(expected)


def test_metadata_stays_with_the_table(client, ids, tmp_path):
    frame = client.fleet.snapshot(paths=["/3303/*"], state="registered")
    selection = {"filters": {"state__eq": "registered"}, "device_ids": None, "paths": ["/3303/*"]}
    assert meta(frame)["selection"] == selection
    assert (meta(frame)["devices"], meta(frame)["rows"], meta(frame)["one_instant"]) == (3, len(frame), True)
    frame.to_parquet(tmp_path / "state.parquet")
    for stored in (read_parquet(tmp_path / "state.parquet"), from_arrow(to_arrow(frame))):
        assert stored.attrs == frame.attrs
        pd.testing.assert_frame_equal(stored.mirror.refresh(client), frame)


def test_devices_are_selected(client, ids, monkeypatch):
    def names(**selection):
        return sorted(client.fleet.snapshot(**selection)["endpoint_name"].unique())

    assert names(state="deregistered") == ["d"]
    assert names(endpoint_type="Light") == ["a"]
    assert names(filters={"endpoint_name__in": ["a", "d"]}) == ["a", "d"]
    assert names(devices=[ids[1], ids[0], ids[1]]) == ["a", "b"]
    assert names(devices=client.devices.list(), state="registered") == ["a", "b"]
    assert names(devices=[]) == []
    assert names(devices=ids[:2], filters={"id__in": ids[1:]}) == ["b"]
    assert meta(client.fleet.snapshot(devices=ids))["devices"] == 4
    # If the ids do not fit into a URL, the client selects the devices.
    monkeypatch.setattr("mirror_sdk.snapshot.device_selection.MAX_IDS_PER_URL", 1)
    assert names(devices=ids[:2]) == ["a", "b"]
    with pytest.raises(NotFound):
        client.fleet.snapshot(devices=[*ids, "nobody"])


def test_an_invalid_selection_is_rejected(client, ids):
    for selection, error, words in (
        ({"devices": [ids[0], "nobody"]}, NotFound, "nobody"),
        ({"paths": ["/3*/0"]}, InvalidValue, "at the end"),
        ({"filters": {"color": "red"}}, BadRequest, "unknown filter"),
        ({"tz": "Nowhere"}, InvalidValue, "time zone"),
    ):
        with pytest.raises(error, match=words):
            client.fleet.snapshot(**selection)


def test_without_arrow_on_the_server_it_is_the_same_table(client_over, plain, ids):
    other = client_over(without_arrow)
    frame = other.fleet.snapshot(paths=["/3303/0/5700"], raw=True)
    pd.testing.assert_frame_equal(frame, plain.fleet.snapshot(paths=["/3303/0/5700"], raw=True))
    assert meta(frame)["one_instant"]
    plain.write_value(ids[0], LIGHT, False)
    complete = other.fleet.snapshot()
    plain.write_value(ids[0], LIGHT, True)
    pd.testing.assert_frame_equal(complete.mirror.refresh(other), plain.fleet.snapshot())


def test_without_snapshots_devices_are_read_one_by_one_with_a_warning(client_over, plain, ids):
    other = client_over(without_snapshots)
    for selection in ({}, {"devices": ids[:2]}, {"state": "registered"}, {"devices": ids, "endpoint_type": "Light"}):
        with pytest.warns(SnapshotWarning, match="one by one"):
            frame = other.fleet.snapshot(**selection)
        pd.testing.assert_frame_equal(frame, plain.fleet.snapshot(**selection))
        assert (meta(frame)["one_instant"], meta(frame)["revision"]) == (False, None)
    with pytest.warns(SnapshotWarning, match="one by one"):
        pd.testing.assert_frame_equal(frame.mirror.refresh(other), frame)
    pd.testing.assert_frame_equal(frame.mirror.refresh(plain), frame)


def change_all(client, simulator, ids):
    client.write_value(ids[0], LIGHT, False)
    simulator.advance(5)
    simulator.set_value(ids[1], TEMPERATURE, "-7")
    client.read_value(ids[1], TEMPERATURE)


def removed(mirror, device_id):
    mirror.services.database.write(lambda session: devices.delete(session, device_id))


STEPS = {
    "nothing": lambda *_: None,
    "values": lambda client, simulator, mirror, ids: change_all(client, simulator, ids),
    "a new device": lambda client, simulator, mirror, ids: simulator.add_device("between", RESOURCES),
    "a device without a value": lambda client, simulator, mirror, ids: simulator.add_device("between", []),
    "a device less": lambda client, simulator, mirror, ids: removed(mirror, ids[0]),
    "a device that leaves the selection": lambda client, simulator, mirror, ids: simulator.deregister(ids[0]),
    "a device that comes into it": lambda client, simulator, mirror, ids: simulator.register(ids[3]),
    "a subscription": lambda client, simulator, mirror, ids: client.subscribe(ids[1], TEMPERATURE),
    "all at once": lambda client, simulator, mirror, ids: (
        change_all(client, simulator, ids),
        removed(mirror, ids[2]),
        simulator.add_device("between", RESOURCES),
        simulator.deregister(ids[0]),
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.filterwarnings("error")
def test_a_refreshed_table_equals_a_new_snapshot(client, simulator, mirror, ids, step):
    selections = [{"state": "registered"}, {"paths": [TEMPERATURE], "raw": True, "tz": "Asia/Tokyo"}]
    selections += [{}, {"devices": ids[1:3]}]
    before = [client.fleet.snapshot(**selection) for selection in selections]
    copies = [frame.copy() for frame in before]
    STEPS[step](client, simulator, mirror, ids)
    mirror.services.database.settle()
    for selection, frame, copy in zip(selections, before, copies, strict=True):
        if selection.get("devices") and step == "all at once":
            with pytest.raises(NotFound):
                frame.mirror.refresh(client)
            continue
        refreshed = frame.mirror.refresh(client)
        expected = client.fleet.snapshot(**selection)
        pd.testing.assert_frame_equal(refreshed, expected)
        assert refreshed.attrs == expected.attrs
        pd.testing.assert_frame_equal(frame, copy)


def test_a_table_that_lost_its_times_is_refreshed_in_utc(client, ids):
    snapshot = client.fleet.snapshot(tz="Asia/Tokyo")
    refreshed = snapshot[["device_id", "path", "reported_num"]].mirror.refresh(client)
    pd.testing.assert_frame_equal(refreshed, client.fleet.snapshot())


def test_only_changed_devices_are_fetched(client_over, plain, ids):
    sizes = []

    def note(request, answer):
        if request.url.path == "/v3/device-echo":
            with pa.ipc.open_stream(answer.content) as batches:
                rows = batches.read_all()["resources"].to_pylist()
            sizes.append(sum(resources is not None for resources in rows))
        return answer

    other = client_over(note)
    frame = other.fleet.snapshot()
    plain.write_value(ids[0], LIGHT, False)
    frame = frame.mirror.refresh(other)
    frame.mirror.refresh(other)
    assert sizes == [4, 1, 0]


def test_only_a_snapshot_table_and_its_derivatives_can_be_refreshed(client, plain, ids):
    frame = client.fleet.snapshot()
    with pytest.raises(InvalidValue, match="has no metadata of a snapshot"):
        client.state_frame().mirror.refresh(client)
    with pytest.raises(InvalidValue, match="refresh the complete table"):
        frame[frame["path"] == TEMPERATURE].mirror.refresh(client)
    with pytest.raises(InvalidValue, match="several rows for a resource"):
        pd.concat([frame.iloc[:-1], frame.iloc[:1]]).mirror.refresh(client)
    rooms = pd.DataFrame({"device_id": ids, "room": list("abcd")})
    for joined in (frame.merge(rooms, on="device_id"), frame.mirror.join(rooms)):
        with pytest.raises(InvalidValue, match=r"frame\.mirror\.with_metadata_from\(snapshot\)"):
            joined.mirror.refresh(client)
    plain.write_value(ids[0], LIGHT, False)
    pd.testing.assert_frame_equal(
        joined.mirror.with_metadata_from(frame).mirror.refresh(client), client.fleet.snapshot()
    )


def test_a_mirror_with_lower_revisions_is_read_completely_with_a_warning(client, ids):
    frame = client.fleet.snapshot()
    frame.attrs["mirror"]["revision"] += 1_000_000
    with pytest.warns(SnapshotWarning, match="all rows are fetched again"):
        pd.testing.assert_frame_equal(frame.mirror.refresh(client), client.fleet.snapshot())


def test_from_another_machine_it_comes_compressed(mirror, client_of):
    requested = []

    def note(request, answer):
        requested.append((request.headers["Accept"], request.url.params["compression"]))
        return answer

    far = client_of("http://mirror.example.com", mirror.new_key(), transport=Between(mirror, note))
    far.fleet.snapshot()
    far.fleet.snapshot(compression="zstd").mirror.refresh(far)
    assert requested == [(ARROW, "lz4"), (ARROW, "zstd"), (ARROW, "lz4")]
