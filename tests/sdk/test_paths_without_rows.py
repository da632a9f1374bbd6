"""A table reports requested paths without rows, and paths that no device has."""

from datetime import timedelta

import httpx
import pytest
from changed_responses import RESOURCES, TEMPERATURE

from mirror_sdk import EmptyTableWarning
from mirror_sdk.arrow_tables.columns import metadata_of_table
from mirror_sdk.wire.routes import SNAPSHOT

pytestmark = pytest.mark.keeps_history

UNUSED_PATH, OTHER = "/3303/0/5799", "/3200/*"


@pytest.fixture
def begin(simulator, plain):
    device_id = simulator.add_device("a", RESOURCES)
    plain.subscribe(device_id, TEMPERATURE)
    begin = simulator.advance(60)
    simulator.set_value(device_id, TEMPERATURE, 22.5)
    return begin


def silent(frame):
    return frame.attrs["mirror"].get("paths_without_rows")


@pytest.mark.parametrize("query", ["history", "as_of", "snapshot", "snapshot as arrow", "state_frame"])
def test_paths_that_no_device_has_are_reported(client, simulator, begin, query):
    is_past = query in {"history", "as_of"}

    def requested(paths, **more):
        if is_past:
            arguments = [simulator.get_clock()] if query == "as_of" else []
            return silent(getattr(client, query)(*arguments, paths=paths, **more))
        form = "arrow" if query.endswith("arrow") else "pandas"
        take = client.fleet.snapshot if query.startswith("snapshot") else client.state_frame
        table = take(paths=paths, **more, as_=form)
        return metadata_of_table(table).get("paths_without_rows") if form == "arrow" else silent(table)

    assert requested([TEMPERATURE]) is None
    assert requested([UNUSED_PATH, TEMPERATURE, OTHER]) == [UNUSED_PATH, OTHER]
    when = "now or" if is_past else r"client\.devices\.res"
    for more in ({}, {"devices": ["a"]}, *([{"endpoint_name": "a"}] if is_past else [])):
        words = rf"none of these devices has /3303/0/5799, /3200/\*[,;] {when}"
        with pytest.warns(EmptyTableWarning, match=words) as caught:
            assert requested([UNUSED_PATH, OTHER], **more) == [UNUSED_PATH, OTHER]
        assert len(caught) == 1
        assert "mirror_sdk" not in caught[0].filename
    with pytest.warns(EmptyTableWarning, match=r"/9/9/4, \.\.\."):
        requested([f"/9/9/{number}" for number in range(7)])


def test_a_recording_may_begin_before_there_is_such_a_resource(client, simulator, begin, tmp_path):
    with client.record(tmp_path / "run.parquet", paths=[UNUSED_PATH], subscribe=True) as recorder:
        pass
    assert recorder.recording.events().empty


def test_a_resource_without_rows_in_the_interval_causes_no_warning(client, simulator, begin):
    """The device has the resource, but no row in this interval."""
    frame = client.history(["a"], [TEMPERATURE], begin=begin + timedelta(seconds=1))
    assert silent(frame) == [TEMPERATURE]
    assert frame["path"].isna().all()
    # A table with a limit cannot report missing paths.
    assert silent(client.history(paths=[UNUSED_PATH], limit=1)) is None


def test_the_table_is_returned_even_if_the_mirror_is_unreachable(client_over, begin):
    def reject_snapshots(request, answer):
        if request.url.path != SNAPSHOT:
            return answer
        rejected.append(request)
        return httpx.Response(403, json={"code": 403, "type": "access_denied", "message": "not now"})

    rejected = []
    assert silent(client_over(reject_snapshots).history(paths=[UNUSED_PATH])) == [UNUSED_PATH]
    assert len(rejected) == 1
