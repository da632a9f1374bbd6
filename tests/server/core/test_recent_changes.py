"""The record of recent changes: which devices are unchanged without reading the database."""

import pytest

from mirror_server.store import session
from mirror_server.store.session import RecentChanges


@pytest.fixture
def changes() -> RecentChanges:
    """Three recorded changes."""
    changes = RecentChanges()
    for revision, device_ids in ((7, ["a", "b"]), (8, ["b"]), (9, [])):
        changes.note(revision, device_ids)
    return changes


def test_device_is_unchanged_if_all_changes_since_are_recorded_and_none_is_its_own(changes):
    for device_id, since, until, expected in (
        ("a", 7, 9, True),
        ("a", 6, 9, False),
        ("b", 7, 9, False),
        ("b", 8, 9, True),
        ("c", 6, 9, True),
        ("c", 5, 9, False),
        ("c", 9, 10, False),
    ):
        assert changes.is_unchanged(device_id, since, until) is expected, (device_id, since, until)


def unchanged(changes, *queries: tuple[str, int, int]) -> list[bool]:
    return [changes.is_unchanged(*each) for each in queries]


def test_change_of_another_process_discards_earlier_changes(changes):
    changes.note(11, ["a"])
    assert unchanged(changes, ("c", 9, 11), ("c", 10, 11), ("a", 10, 11)) == [False, True, False]


def test_oldest_changes_are_dropped_beyond_the_device_limit(changes, monkeypatch):
    monkeypatch.setattr(session, "_MAX_DEVICES", 2)
    changes.note(10, ["c"])
    assert unchanged(changes, ("d", 9, 10)) == [True]
    changes.note(11, ["d"])
    assert unchanged(changes, ("d", 9, 10), ("a", 10, 11)) == [False, True]


def test_device_is_unchanged_since_the_last_of_several_revisions() -> None:
    changes = RecentChanges()
    for change in ((3, ["a"]), (7, ["b"], 4), (8, ["c"])):
        changes.note(*change)
    assert unchanged(changes, ("a", 3, 8), ("b", 3, 8), ("b", 7, 8)) == [True, False, True]
