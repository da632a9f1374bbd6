"""Publishes and counts reported values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mirror_server.hooks import Measurement, extends
from mirror_server.store.change_listeners import ReportedChange
from mirror_server.store.database import Database
from mirror_server.store.session import Session

Publish = Callable[[str, bytes], object]
"""A function that publishes a payload under a topic, like the method of an MQTT client."""

_COUNT = (
    "INSERT INTO sample_counts (device_id, published) VALUES (?, 1) ON CONFLICT (device_id)"
    " DO UPDATE SET published = sample_counts.published + 1"
)


class Publisher:
    """Publishes the reported values of one server."""

    def __init__(self, database: Database, publish: Publish) -> None:
        self._database = database
        self._publish = publish

    @extends
    def values_reported(self, session: Session, batch: Sequence[ReportedChange]) -> None:
        """Count the values in their transaction, and publish them after the commit."""
        values = [reported.value for reported in batch]
        session.run_many(_COUNT, [(value.device_id,) for value in values])
        for value in values:
            session.after_commit(partial(self._publish, f"{value.device_id}{value.path}", value.value))

    @extends
    def measurements(self) -> Sequence[Measurement]:
        """Return the number of published values as a metric."""
        return [Measurement("sample_published", "Values that were published.", self.count(), is_count=True)]

    def count(self) -> int:
        """Return the number of published values of all devices in the table."""
        statement = "SELECT CAST(coalesce(sum(published), 0) AS BIGINT) FROM sample_counts"
        published: int = self._database.query(lambda session: session.scalar(statement))
        return published
