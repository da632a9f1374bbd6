"""Fixtures of the history: small histories with tail, segments and archive."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from databases import new_database_url
from histories import RecordedRows, StoredHistory

from mirror_server.extensions.history import compaction, offload, parquet

BOTH = [
    "test_point_in_time.py",
    "test_category_in_reads.py",
    "test_fleet_reads.py",
    "test_history_when_clocks_jump.py",
    "test_unread_downloads.py",
]
"""Tests that also need the fleet snapshot."""
collect_ignore = [] if find_spec("mirror_server.extensions.snapshots") else BOTH


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks, files and groups small, so that a few rows fill several of each kind."""
    monkeypatch.setattr(parquet, "_ROWS_OF_A_GROUP", 2)
    monkeypatch.setattr(compaction, "_ROWS_OF_A_BLOCK", 4)
    monkeypatch.setattr(offload, "_ROWS_OF_A_FILE", 6)
    monkeypatch.setattr(offload, "_MOST_DAYS", 2)


@pytest.fixture
def new_history(tmp_path: Path) -> Iterator[Callable[[], StoredHistory]]:
    made: list[StoredHistory] = []

    def make(**more: Any) -> StoredHistory:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(StoredHistory(RecordedRows(new_database_url(folder)), folder, **more))
        return made[-1]

    yield make
    for each in made:
        each.recorded.database.close()
