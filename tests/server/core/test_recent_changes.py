"""What is known of the last changes without the database, and what is not."""

import pytest

from mirror_server.store import session
from mirror_server.store.session import RecentChanges


@pytest.fixture
def changes() -> RecentChanges:
    """Three changes, of which the last ones are known."""
    changes = RecentChanges()
    for revision, device_ids in ((7, ["a", "b"]), (8, ["b"]), (9, [])):
        changes.note(revision, device_ids)
    return changes


def test_a_device_is_unchanged_where_all_changes_since_are_known_and_none_is_its(changes):
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


def unchanged(changes, *asked: tuple[str, int, int]) -> list[bool]:
    return [changes.is_unchanged(*each) for each in asked]


def test_behind_a_change_of_another_process_nothing_before_it_is_known(changes):
    changes.note(11, ["a"])
    assert unchanged(changes, ("c", 9, 11), ("c", 10, 11), ("a", 10, 11)) == [False, True, False]


def test_of_very_many_devices_the_oldest_changes_are_forgotten(changes, monkeypatch):
    monkeypatch.setattr(session, "_MAX_DEVICES", 2)
    changes.note(10, ["c"])
    assert unchanged(changes, ("d", 9, 10)) == [True]
    changes.note(11, ["d"])
    assert unchanged(changes, ("d", 9, 10), ("a", 10, 11)) == [False, True]


def test_a_change_may_have_several_numbers() -> None:
    changes = RecentChanges()
    for change in ((3, ["a"]), (7, ["b"], 4), (8, ["c"])):
        changes.note(*change)
    assert unchanged(changes, ("a", 3, 8), ("b", 3, 8), ("b", 7, 8)) == [True, False, True]
