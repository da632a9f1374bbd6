"""The first page of a snapshot does not read all devices of a large fleet."""

from contextlib import closing

import pytest
from statement_costs import STEPS, YEAR, large_fleet, steps_of

from mirror_server.extensions.snapshots import store
from mirror_server.store import devices
from mirror_server.store.conditions import Condition

FILTERS = {
    "registered": (Condition("registered", "IN", (1,)), 5),
    "deregistered": (Condition("registered", "IN", (0,)), 0),
    "of a type": (Condition("endpoint_type", "IN", ("Sensor",)), 5),
    "of no type": (Condition("endpoint_type", "IN", ("none",)), 0),
    "updated early": (Condition("updated_at", "<", (500 * YEAR,)), 5),
    "updated late": (Condition("updated_at", ">", (1000 * YEAR,)), 0),
}


@pytest.mark.sqlite
@pytest.mark.parametrize(("condition", "found"), FILTERS.values(), ids=FILTERS)
def test_the_first_page_reads_few_devices(tmp_path, monkeypatch, condition, found):
    monkeypatch.setattr(devices, "_MANY", 100)
    pages = []
    with closing(large_fleet(tmp_path / "mirror.db")) as database:
        steps = steps_of(database, lambda session: pages.append(next(store.pages(session, [condition], 5), None)))
    assert (pages[0].device_count if pages[0] else 0) == found
    assert steps < STEPS
