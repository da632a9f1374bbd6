"""A filter does not read all devices of a large fleet, whether it finds many of them or few."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from statement_costs import IDS, STEPS, large_fleet, steps_of

from mirror_server.extensions.directory.filters import DIRECTORY, read_filters
from mirror_server.store import devices
from mirror_server.store.database import Database

pytestmark = pytest.mark.sqlite


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Devices that all have one name, of which three have another attribute."""
    path: Path = tmp_path_factory.mktemp("costs") / "mirror.db"
    with closing(large_fleet(path)) as database:
        with closing(sqlite3.connect(path)) as connection, connection:
            described = [(each,) for each in IDS]
            connection.executemany("INSERT INTO device_descriptions VALUES (?, 'all', '', 0)", described)
            attributes = [(each, "site", "Rome" if number % 1000 == 9 else "Berlin") for number, each in enumerate(IDS)]
            connection.executemany("INSERT INTO device_attributes VALUES (?, ?, ?)", attributes)
        yield database


FILTERS = {
    "state__eq=registered": 5,
    "state__eq=deregistered": 0,
    "endpoint_type__eq=Sensor": 5,
    "endpoint_type__eq=none": 0,
    "created_at__gte=2100-01-01T00:00:00Z": 0,
    "updated_at__lte=2100-01-01T00:00:00Z": 5,
    "updated_at__lte=2470-01-01T00:00:00Z&updated_at__gte=2469-01-01T00:00:00Z": 3,
    "endpoint_name__eq=none": 0,
    "name__eq=all": 5,
    "name__eq=none": 0,
    "custom_attributes__site=Berlin": 5,
    "custom_attributes__site=Rome": 3,
    "custom_attributes__site__in=none,other": 0,
    "custom_attributes__floor__eq=3": 0,
}


@pytest.mark.parametrize(("text", "found"), FILTERS.items())
def test_a_page_reads_few_devices(database, monkeypatch, text, found):
    monkeypatch.setattr(devices, "_MANY", 100)
    conditions = read_filters(parse_qsl(text), DIRECTORY)
    rows = []
    steps = steps_of(
        database,
        lambda session: rows.extend(devices.page(session, conditions, after=None, descending=False, limit=5)),
    )
    assert len(rows) == found
    assert steps < STEPS


MANY_BOUNDS = "&".join(
    ["updated_at__gt=1971-01-01T00:00:00Z"] * 40
    + ["updated_at__gt=3100-01-01T00:00:00Z", "updated_at__lte=3200-01-01T00:00:00Z"]
)


@pytest.mark.parametrize(
    "text", [MANY_BOUNDS, "state=registered&endpoint_type=none", "state=registered&" + MANY_BOUNDS]
)
def test_contradictory_and_redundant_filters_read_few_devices(database, monkeypatch, text):
    monkeypatch.setattr(devices, "_MANY", 100)
    conditions = read_filters(parse_qsl(text), DIRECTORY)

    def work(session):
        assert devices.page(session, conditions, after=None, descending=False, limit=5) == []
        assert devices.count(session, conditions) == 0

    assert steps_of(database, work) < STEPS


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", len(IDS), len(IDS)),
        ("endpoint_type__eq=Sensor", len(IDS), len(IDS)),
        ("endpoint_type__eq=none", 0, 0),
        ("endpoint_type__eq=Sensor&created_at__gte=2100-01-01T00:00:00Z", 0, 0),
        ("updated_at__lte=2470-01-01T00:00:00Z&updated_at__gte=2469-01-01T00:00:00Z", 3, 30),
        ("custom_attributes__site=Rome", len(IDS), len(IDS)),
        ("&".join(["endpoint_type=none"] * 6), len(IDS), len(IDS)),
    ],
)
def test_the_number_of_read_devices_is_estimated_with_indexes(database, monkeypatch, text, least, most):
    monkeypatch.setattr(devices, "_MANY", 100)
    conditions = read_filters(parse_qsl(text), DIRECTORY)
    with database.read() as session:
        assert least <= devices.scanned_count(session, conditions) <= most
