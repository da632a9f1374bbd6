"""The table of the widgets, and their static copy, without a browser."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mirror_sdk import MirrorClient
from mirror_sdk._visible import MISSING
from mirror_sdk.widgets import FleetTable
from mirror_sdk.widgets.grid import ColumnKind, Grid, GridColumn, SelectionMode

ROOT = Path(__file__).parents[3]
COLUMNS = [
    GridColumn("name", "name"),
    GridColumn("level", "level (%)", ColumnKind.NUMBER),
    GridColumn("at", "at (UTC)", ColumnKind.TIME),
    GridColumn("since", "since (UTC)", ColumnKind.TIME),
]


class Page(Grid):
    """A grid that notes what it sends to its page."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []
        super().__init__(COLUMNS, label="Devices", selection=SelectionMode.MANY)

    def _send(self, msg: Any, buffers: Any = None) -> None:
        sent_to_pages = json.loads(json.dumps(msg))
        if sent_to_pages["method"] == "custom":
            self.sent.append(sent_to_pages["content"])
        else:
            self.states.append(sent_to_pages["state"])

    def sent_to_pages(self, name: str) -> list[Any]:
        """Return the values of a member of the state that were sent to pages, the oldest first."""
        return [state[name] for state in self.states if name in state]

    def open_page(self) -> None:
        """Send the message of a page that opens."""
        self._handle_custom_msg({"have": self.table["version"]}, [])


def page_of(*keys: str) -> Page:
    grid = Page()
    grid.show([row(key) for key in keys])
    return grid


def row(key: str, level: object = 1, **more: object) -> dict[str, object]:
    return {"key": key, "name": f"device {key}", "level": level, **more}


def test_only_changed_rows_are_sent_to_the_page() -> None:
    grid = Page()
    grid.open_page()
    grid.show([row("a"), row("b"), row("c")])
    grid.show([row("a"), row("b"), row("c")])
    grid.show([row("a"), row("c", 7), row("d")])
    first, second = grid.sent
    assert (first["version"], first["all"], [one["key"] for one in first["rows"]]) == (1, True, ["a", "b", "c"])
    assert second == {"version": 2, "rows": [row("c", 7), row("d")], "gone": ["b"]}
    assert grid.table == {"version": 2, "rows": [row("a"), row("c", 7), row("d")]}


def test_rows_are_in_the_state_until_a_page_opens_and_missed_rows_are_sent_on_request() -> None:
    grid = page_of("a")
    grid.show([row("a"), row("b")])
    assert [(table["version"], len(table["rows"])) for table in grid.sent_to_pages("table")] == [(1, 1), (2, 2)]
    assert grid.sent == []
    grid._handle_custom_msg({"have": 1}, [])
    assert grid.sent == [{"version": 2, "rows": [row("a"), row("b")], "all": True}]
    grid._handle_custom_msg({"have": 2}, [])
    grid.show([row("b")])
    assert (len(grid.sent_to_pages("table")), len(grid.sent)) == (2, 2)


def test_inserted_and_moved_rows_are_displayed_at_their_position() -> None:
    grid = Page()
    grid.open_page()
    for order in ("bc", "abc", "acb", "a", "ab"):
        grid.show([row(key) for key in order])
    assert ["all" in message for message in grid.sent] == [True, True, True, False, False]
    assert [one["key"] for one in grid.sent[2]["rows"]] == ["a", "c", "b"]


def test_removed_rows_are_not_selected() -> None:
    grid = page_of("a", "b", "c")
    grid.selected = ["c", "a"]
    assert [one["key"] for one in grid.selected_rows] == ["a", "c"]
    grid.show([row("b"), row("c")])
    assert grid.selected == ["c"]


def test_a_selection_counts_before_the_state_of_its_page_comes_and_is_noticed_once() -> None:
    grid = page_of("a", "b")
    noticed: list[list[str]] = []
    grid.observe(lambda change: noticed.append(change["new"]), "selected")
    grid._handle_custom_msg({"selected": ["b"]}, [])
    assert [one["key"] for one in grid.selected_rows] == ["b"]
    # By then more may be selected on the page.
    assert grid.sent_to_pages("selected") == []
    grid.set_state({"selected": ["b"], "search": "some"})
    assert grid.sent_to_pages("selected") == [["b"]]
    assert grid.search == "some"
    assert noticed == [["b"]]


def test_state_of_a_page_does_not_undo_a_newer_selection() -> None:
    grid = page_of("a", "b")
    grid._handle_custom_msg({"selected": ["a"]}, [])
    grid.selected = []
    grid.set_state({"selected": ["a"]})
    assert grid.selected == []
    assert grid.sent_to_pages("selected") == [[], []]


def test_times_have_fractions_of_seconds_only_while_one_of_them_needs_it() -> None:
    grid, at = Page(), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    grid.open_page()
    for rows, texts in (
        ([row("a", at=at, since=at)], ["2026-01-02 03:04:05"]),
        (
            [row("a", at=at, since=at), row("b", at=at.replace(microsecond=678_000), since=at)],
            ["2026-01-02 03:04:05.000", "2026-01-02 03:04:05.678"],
        ),
        ([row("a", at=at, since=at)], ["2026-01-02 03:04:05"]),
    ):
        grid.show(rows)
        assert [one["at"] for one in grid.sent[-1]["rows"]] == texts
        assert {one["since"] for one in grid.sent[-1]["rows"]} == {"2026-01-02 03:04:05"}
        assert all(f">{text}</td>" in grid.static_html() for text in texts)


@pytest.mark.parametrize("content", [None, 3, {"a": 1}, [1], [["a"]], [None]])
def test_message_without_a_selection_changes_none(content: object) -> None:
    grid = page_of("a", "b")
    grid.selected = ["b"]
    grid._handle_custom_msg({"selected": content}, [])
    assert grid.selected == ["b"]
    grid.selected = ["a"]
    assert grid.sent_to_pages("selected") == [["b"], ["a"]]


def test_static_table_escapes_texts_and_says_how_many_rows_are_missing() -> None:
    grid = Page()
    grid.show([row("a", at=datetime(2026, 1, 2, 3, 4, 5, 678900, UTC))])
    # Times are sent with their date, in UTC.
    assert grid.table["rows"][0]["at"] == "2026-01-02 03:04:05.678"
    assert ">2026-01-02 03:04:05.678</td>" in grid.static_html()
    grid.show([row("<b>", None), *(row(str(number)) for number in range(9))])
    html = grid.static_html(most_rows=2)
    assert "device &lt;b&gt;" in html
    assert f">{MISSING}</td>" in html
    assert "Devices, the first 2 of 10 rows" in html
    assert html.count("<tr>") == 3


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


def test_grid_module_is_built_from_its_sources() -> None:
    command = [sys.executable, ROOT / ".ci" / "make_grid.py", "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == ""
