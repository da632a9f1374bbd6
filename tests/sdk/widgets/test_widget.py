"""The base of the widgets without a browser: the state, rows, series and intents of a component."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import traitlets
from comm.base_comm import BaseComm
from widget_elements import do

from mirror_sdk import MirrorClient
from mirror_sdk._formatting import MISSING
from mirror_sdk.frames import DriftKind
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable, report, static
from mirror_sdk.widgets.lazy_module import MODULE
from mirror_sdk.widgets.live import CALLS_AT_ONCE, Live
from mirror_sdk.widgets.models.model import Model
from mirror_sdk.widgets.models.status import DRIFT_STATUS, Status
from mirror_sdk.widgets.published import PublishedRows, PublishedSeries
from mirror_sdk.widgets.widget import MirrorWidget

ROOT = Path(__file__).parents[3]


class CounterModel(Model):
    number = 0

    def add(self, number: int) -> None:
        self.number += number
        self.changed()


class Counter(MirrorWidget):
    """A widget with a number, which records what it sends."""

    model: CounterModel
    _component = traitlets.Unicode("counter").tag(sync=True)
    _attributes = "number"
    _intents = "add"

    def __init__(self, client: MirrorClient) -> None:
        self.sent: list[dict[str, Any]] = []
        super().__init__(client, live=False, keep_previous=True)
        self.model = CounterModel(client)
        self._start()

    def _publish(self) -> None:
        self._rows("numbers").show([{"key": str(number)} for number in range(self.model.number)])

    def _static_html(self) -> Iterator[str]:
        yield str(self.model.number)

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sent.append(content)

    def receive_message(self, content: Any) -> None:
        self._handle_custom_msg(content, [])


def test_intent_changes_the_model_and_the_state(client: MirrorClient) -> None:
    counter = Counter(client)
    counter.receive_message({"intent": "add", "args": [3]})
    assert counter._state["number"] == 3
    assert counter._state["notices"] == []


@pytest.mark.parametrize(
    ("content", "notice"),
    [
        ({"intent": "explode", "args": []}, "That failed: Counter cannot do 'explode'. Reload the page"),
        ({"intent": "add", "args": []}, "That failed: 'add' cannot be called with 0 arguments: missing a required"),
        ({"intent": "add", "args": ["x"]}, "That failed: unsupported operand type"),
    ],
)
def test_bad_intent_is_a_notice(client: MirrorClient, content: object, notice: str) -> None:
    counter = Counter(client)
    counter.receive_message(content)
    assert counter._state["notices"][0].startswith(notice)


@pytest.mark.parametrize(
    "content", [None, 3, [], {"intent": 3, "args": []}, {"intent": "add"}, {"request": "source", "name": "x"}]
)
def test_unrelated_message_is_ignored(client: MirrorClient, content: object) -> None:
    counter = Counter(client)
    counter.receive_message(content)
    assert (counter._state["number"], counter._state["notices"]) == (0, [])


class Jupyter(BaseComm):
    """A connection to a page that encodes messages as Jupyter does."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        super().__init__()

    def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
        self.sent.append(json.dumps(data, ensure_ascii=False).encode())


def test_lone_surrogates_of_a_page_are_replaced_when_they_are_sent(widget: Callable[..., Any]) -> None:
    fleet = widget(FleetTable)
    fleet.comm = jupyter = Jupyter()
    do(fleet, "change_view", {"search": "\ud800"})
    assert any(b'"search": "?"' in one for one in jupyter.sent)
    assert fleet._state["notices"] == []


def test_lone_surrogates_are_replaced_in_the_copy(
    client: MirrorClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(client)
    monkeypatch.setattr(counter, "_static_html", lambda: ["\ud800"])
    assert "</p>?" in counter.to_html(tmp_path / "copy.html").read_text(encoding="utf-8")


def test_many_calls_share_a_few_threads(client: MirrorClient) -> None:
    go = threading.Event()
    done: list[object] = []
    live = Live(client, receive=lambda *_: None, tick=lambda: None, show=lambda: None, failed=done.append)
    before = set(threading.enumerate())
    for _ in range(100):
        live.run(lambda: go.wait(30), done.append, done.append)
    threads = {one for one in set(threading.enumerate()) - before if one.name == "mirror-widget-call"}
    assert len(threads) == CALLS_AT_ONCE
    go.set()
    for thread in threads:
        thread.join(30)
    live.step()
    assert done == [True] * 100


@pytest.mark.parametrize("device", [0, 1.5, True, [], {}])
def test_device_that_is_no_text_is_not_chosen(widget: Callable[..., Any], device: object) -> None:
    explorer = widget(Explorer)
    do(explorer, "choose", device)
    assert explorer.model.device_id is None
    assert "must be a string" in explorer._state["notices"][0]


def test_text_that_is_no_path_is_not_opened(widget: Callable[..., Any]) -> None:
    explorer = widget(Explorer)
    do(explorer, "open_resource", "exe")
    do(explorer, "enter", "1")
    assert explorer._state["detail"] is None


def test_selection_of_anything_leaves_the_fleet_usable(widget: Callable[..., Any]) -> None:
    fleet = widget(FleetTable)
    do(fleet, "select", [[], {}, None])
    assert fleet._state["selectedWithValue"] == 0


def test_a_page_loads_at_most_one_and_a_half_megabytes_of_javascript() -> None:
    assert len(MODULE.encode()) <= 1_500_000


def test_completion_lists_only_members_for_users(client: MirrorClient) -> None:
    fleet = FleetTable(client, live=False)
    # Neither the members of ipywidgets nor those that only a subclass uses.
    assert [name for name in dir(fleet) if not name.startswith("_")] == [
        *("client", "close", "current_view", "explorer", "is_running", "model", "refresh", "select", "selected"),
        *("show_device", "to_html", "writer"),
    ]


def test_rows_are_in_the_state_until_a_page_opens(client: MirrorClient) -> None:
    counter = Counter(client)
    counter.receive_message({"intent": "add", "args": [1]})
    assert counter.sent == []
    published = counter.get_state("_published")["_published"]["numbers"]
    assert published == {"kind": "rows", "name": "numbers", "version": 1, "all": True, "rows": [{"key": "0"}]}
    counter.receive_message({"request": "all"})
    counter.receive_message({"intent": "add", "args": [1]})
    assert [(sent["version"], sent.get("all", False)) for sent in counter.sent] == [(1, True), (2, False)]


def rows_of(*levels: tuple[str, object]) -> list[dict[str, Any]]:
    return [{"key": key, "level": level} for key, level in levels]


def test_only_changed_rows_are_sent() -> None:
    sent: list[dict[str, Any]] = []
    rows = PublishedRows("devices", lambda content, _: sent.append(content))
    rows.show(rows_of(("a", 1), ("b", 2)))
    rows.show(rows_of(("a", 1), ("b", 2)))
    rows.show(rows_of(("a", 1), ("b", 3), ("c", 4)))
    rows.show(rows_of(("c", 4), ("b", 3)))
    assert [(one.get("all", False), [row["key"] for row in one["rows"]], one.get("gone")) for one in sent] == [
        (True, ["a", "b"], None),
        (False, ["b", "c"], []),
        (True, ["c", "b"], None),
    ]
    assert [row["key"] for row in rows.rows] == ["c", "b"]


def test_cells_are_json_that_javascript_reads_exactly() -> None:
    rows = PublishedRows("devices", lambda *_: None)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    rows.show([{"key": "a", "at": at, "nan": float("nan"), "large": 2**60, "small": 3, "text": "x", "none": None}])
    (row,) = rows.state["rows"]
    assert row["at"] == at.timestamp() * 1000
    assert (row["nan"], row["large"], row["small"], row["text"], row["none"]) == ("nan", str(2**60), 3, "x", None)


def points(*numbers: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.array(numbers), np.array(numbers)


def test_of_a_line_that_grows_only_new_points_are_sent() -> None:
    sent: list[tuple[Any, list[list[float]]]] = []
    series = PublishedSeries(
        "lines",
        lambda content, buffers: sent.append((content["lines"], [np.frombuffer(one).tolist() for one in buffers])),
    )
    series.show({"a": points(1, 2, 3)})
    series.show({"a": points(1, 2, 3)})
    series.show({"a": points(2, 3, 4)})
    series.show({"a": points(2, 9)})
    series.show({})
    assert sent == [
        ([{"key": "a"}], [[1, 2, 3], [1, 2, 3]]),
        ([{"key": "a", "dropped": 1}], [[4], [4]]),
        ([{"key": "a"}], [[2, 9], [2, 9]]),
        ([], []),
    ]


def test_widget_leaves_a_copy_and_updates_it(client: MirrorClient, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[tuple[dict[str, str], dict[str, Any]]] = []
    publish = lambda data, **options: published.append((data, options))  # noqa: E731
    monkeypatch.setattr("IPython.display.publish_display_data", publish)
    fleet = FleetTable(client, live=False)
    fleet._ipython_display_()
    (view, _), (copy, options) = published
    assert view["text/html"] == ""
    assert "application/vnd.jupyter.widget-view+json" in view
    assert "FleetTable, as of 2" in copy["text/html"]
    assert "<script" not in copy["text/html"]
    fleet.model.version += 1
    fleet.refresh()
    fleet.refresh()
    fleet.close()
    assert [one[1].get("update", False) for one in published[2:]] == [True]
    assert published[2][1]["transient"] == options["transient"]


def test_a_report_is_a_page_of_its_own_and_is_written_again(client: MirrorClient, tmp_path: Path) -> None:
    fleet = FleetTable(client, live=False)
    for _ in range(2):
        content = fleet.to_html(tmp_path / "fleet.html").read_text(encoding="utf-8")
    assert content.startswith("<!doctype html>")
    assert content.count("FleetTable, as of ") == 1
    assert "http" not in content


def test_report_contains_several_widgets(client: MirrorClient, tmp_path: Path) -> None:
    fleet, watcher = FleetTable(client, live=False), EventWatcher(client, live=False)
    content = report(tmp_path / "day.html", fleet, watcher, title="<Monday>\ud800").read_text(encoding="utf-8")
    assert "<title>&lt;Monday&gt;?</title>" in content
    assert content.index("FleetTable, as of ") < content.index("EventWatcher, as of ")
    with pytest.raises(TypeError, match=r"report\(\) takes widgets after the file, got 'day.html'"):
        report(tmp_path / "other.html", "day.html")
    assert not (tmp_path / "other.html").exists()


def test_static_table_escapes_texts_and_says_how_many_rows_are_missing() -> None:
    rows = rows_of(("<b>", None), *((str(number), number) for number in range(9)))
    html = static.table("Devices", ["key: Name", "level"], rows, 2)
    assert "&lt;b&gt;" in html
    assert f">{MISSING}</td>" in html
    assert "Devices, the first 2 of 10 rows" in html
    assert html.count("<tr>") == 3
    assert ">Name</th>" in html
    assert ">Level</th>" in html


def test_each_status_has_its_own_text() -> None:
    assert len({one.text for one in Status}) == len(Status)
    assert set(DRIFT_STATUS) == set(DriftKind)


def test_module_is_built_from_its_sources() -> None:
    command = [sys.executable, ROOT / ".ci" / "make_ui.py", "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == ""
