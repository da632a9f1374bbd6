# Made from async_service_views.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The views of a service for SQL queries of a synchronous client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk.arrow_tables.history import HistoryTableBuilder
from mirror_sdk.arrow_tables.state import STATE_SCHEMA
from mirror_sdk.client_groups.notifications import Notifications
from mirror_sdk.client_groups.requests import Requests, as_accepted
from mirror_sdk.client_groups.service_conditions import Sent, sent_conditions
from mirror_sdk.errors import APIError, BeforeHistory
from mirror_sdk.frames.device_events import device_events_frame
from mirror_sdk.history.changes import CHANGES_SCHEMA
from mirror_sdk.history.history_reader import history_metadata
from mirror_sdk.history.history_request import HistoryRequest
from mirror_sdk.snapshot.snapshot_request import SnapshotRequest, get_device_ranges
from mirror_sdk.sql.source import Scan
from mirror_sdk.sql.streams import Put, TableStream
from mirror_sdk.sql.tables import (
    SERVICE_VIEWS,
    devices_table,
    drift_table,
    table_of_frame,
)
from mirror_sdk.wire.snapshot import MAX_DEVICES_PER_RANGE

if TYPE_CHECKING:
    from mirror_sdk.arrow_tables.arrow_types import ArrowTable

_OF_DEVICES = {"devices", "state", "drift", "as_of"}
"""The views whose rows are at least as many as the selected devices."""


class ServiceViews:
    """The views of a service. DuckDB reads them in another thread, while this client fetches their rows.

    Args:
        session: The session of the client.
        changes: The method ``changes`` of the client.
        now: The current time of the service.
        timeout: The timeout of the query.
        start: A function that starts to fetch tables.
        wait: A function that waits for the result of a request, in the thread of DuckDB.
    """

    name: str = "this mirror"
    views: Mapping[str, pa.Schema] = SERVICE_VIEWS
    functions: Mapping[str, pa.Schema] = {"as_of": STATE_SCHEMA, "changes": CHANGES_SCHEMA}

    def __init__(
        self,
        session: ClientSession,
        changes: Callable[..., ArrowTable],
        now: datetime,
        timeout: Deadline | None,
        start: Callable[[Callable[[Put], Any]], TableStream],
        wait: Callable[[Any], int | None],
    ) -> None:
        self.server: str = session.base_url
        self._changes = changes
        self._session = session
        self._tables = TableReader(session)
        self._now = now
        self._timeout = timeout
        self._start = start
        self._wait = wait

    def now(self) -> datetime:
        """Return the time of the service at the start of the query."""
        return self._now

    def sent(self, scan: Scan) -> Mapping[str, object]:
        """Return the conditions that are sent to the service."""
        return sent_conditions(scan).to_dict()

    def expected_rows(self, scan: Scan) -> int | None:
        """Return the number of selected devices for views with at least one row for each device."""
        return self._wait(self._device_count(scan)) if scan.view in _OF_DEVICES else None

    def open(self, scan: Scan) -> Iterable[pa.Table]:
        """Start to fetch the rows of a scan."""
        return self._start(partial(self._fetch, scan))

    def _device_count(self, scan: Scan) -> int | None:
        selection = sent_conditions(scan).selection
        if selection.device_ids is not None or "id__eq" in selection.filters or "id__in" in selection.filters:
            # These are few, and counting them would take as long as fetching them.
            return None
        try:
            operation = get_device_ranges(selection, MAX_DEVICES_PER_RANGE)
            return self._session.sender.send(operation, self._timeout).device_count
        except APIError:
            # Another service may not count devices. Then the limit applies while the rows arrive.
            return None

    def _fetch(self, scan: Scan, put: Put) -> None:
        fetch: dict[str, Callable[[Sent, Put], None]] = {
            "history": self._fetch_history,
            "state": self._fetch_state,
            "as_of": self._fetch_state,
            "drift": self._fetch_drift,
            "changes": self._fetch_changes,
            "devices": self._fetch_devices,
            "device_events": self._fetch_device_events,
            "events": self._fetch_events,
            "requests": self._fetch_requests,
        }
        fetch[scan.view](sent_conditions(scan), put)

    def _fetch_history(self, sent: Sent, put: Put) -> None:
        try:
            self._fetch_history_from(sent, sent.begin, put)
        except BeforeHistory:
            # The rest of the interval may be stored.
            self._fetch_history_from(sent, None, put)

    def _fetch_history_from(self, sent: Sent, begin: datetime | None, put: Put) -> None:
        request = HistoryRequest(selection=sent.selection, server=self.server, begin=begin, end=sent.end)
        if "unit" not in sent.scan.used:
            self._tables.read_history(request, put, self._timeout)
            return
        # The units that devices reported are only known when all rows have arrived.
        parts = HistoryTableBuilder(raw=False)
        result = self._tables.read_history(request, parts.add, self._timeout)
        units = self._tables.units_over_time(parts.unitless(), request, result)
        tables, _ = parts.finish(history_metadata(request, result), units=units)
        for table in tables:
            put(table)

    def _fetch_state(self, sent: Sent, put: Put) -> None:
        as_of = sent.scan.instants[0] if sent.scan.instants else None
        request = SnapshotRequest(selection=sent.selection, server=self.server, as_of=as_of)
        self._tables.take(request, put, self._timeout)

    def _fetch_drift(self, sent: Sent, put: Put) -> None:
        request = SnapshotRequest(selection=sent.selection, server=self.server)
        table = drift_table(*self._tables.tables_of(request, self._timeout))
        put(table)

    def _fetch_changes(self, sent: Sent, put: Put) -> None:
        begin, *ends = sent.scan.instants
        end = ends[0] if ends else None
        filters, paths = sent.selection.filters, sent.selection.paths
        table = self._changes(begin, end, paths=paths, filters=filters, timeout=self._timeout, as_="arrow")
        put(table)

    def _fetch_devices(self, sent: Sent, put: Put) -> None:
        page = partial(_operations.list_devices, sent.selection.filters, limit=None)
        table = devices_table(self._session.collect(page, self._timeout))
        put(table)

    def _fetch_device_events(self, sent: Sent, put: Put) -> None:
        for filters in _operations.event_filters(sent.selection.device_ids, sent.begin, sent.end, None):
            page = partial(_operations.list_device_events, filters, limit=None)
            frame = device_events_frame(self._session.collect(page, self._timeout))
            put(table_of_frame(frame, sent.scan.view))

    def _fetch_events(self, _: Sent, put: Put) -> None:
        outage = None if self._timeout is None else self._timeout.left
        log = Notifications(self._session)
        table = log.events_frame(after=0, timeout=0, outage_timeout=outage, as_="arrow")
        put(table)

    def _fetch_requests(self, sent: Sent, put: Put) -> None:
        client = Requests(self._session)
        requests = [as_accepted(one) for one in client.list(timeout=self._timeout)]
        put(table_of_frame(client.frame(requests), sent.scan.view))


def service_now(session: ClientSession, timeout: Deadline | None) -> datetime:
    """Return the current time of the service."""
    now = TableReader(session).clock_of(timedelta(), timeout=timeout)
    return instant_like("now", now(), now)
