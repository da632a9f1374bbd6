# Made from async_table_reader.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""A reader of the state, snapshot and history tables of a fleet for a synchronous client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._arguments import InstantLike, is_span
from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._fork import import_locked
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.fan_out import gather_concurrently, gather_requests
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk.device_lookup import DevicesLike
from mirror_sdk.errors import APIError, ConnectionFailed, MirrorError, NotFound
from mirror_sdk.progress import progress_bar, without_progress
from mirror_sdk.table_formats import to_pandas

if TYPE_CHECKING:
    from datetime import datetime

    import pandas as pd
    import pyarrow as pa

    from mirror_sdk.arrow_tables.units import NamedUnits, Unitless
    from mirror_sdk.history.history_reader import HistoryResult
    from mirror_sdk.history.history_request import HistoryRequest
    from mirror_sdk.snapshot.device_selection import Selection
    from mirror_sdk.snapshot.snapshot_reader import SnapshotResult, TableSink
    from mirror_sdk.snapshot.snapshot_request import SnapshotRequest

_DEVICES_AT_A_TIME = 100
"""The number of devices whose rows are collected before they are added to the table."""
_NO_DEVICE = "-"
"""An id that no device has. A snapshot of this id contains only the time of the service."""


class TableReader:
    """A reader of the rows and the metadata of state, snapshot and history tables.

    Args:
        session: The session that sends the requests.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    def select(
        self,
        devices: DevicesLike | None,
        timeout: float | None,
        paths: Sequence[str] | None,
        state: str | None,
        endpoint_type: str | None,
        endpoint_name: str | None,
        filters: Mapping[str, object] | None,
    ) -> Selection:
        """Return the selection for a table, in which devices are listed by their ids."""
        from mirror_sdk.snapshot.device_selection import Selection

        return Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else self._session.ids_of(devices, timeout=timeout),
        )

    def state_of(
        self, devices: DevicesLike | None, paths: Sequence[str] | None, timeout: float | None, *, raw: bool = False
    ) -> tuple[list[pa.Table], dict[str, object]]:
        """Return the state table of devices that are fetched one by one, in chunks, and its metadata."""
        import_locked("mirror_sdk.arrow_tables.state")
        from mirror_sdk.arrow_tables.state import StateRows

        tables: list[pa.Table] = []
        parts = StateRows(tables.append, paths=paths, raw=raw)
        chosen = self._list_ids({}, timeout) if devices is None else self._session.ids_of(devices, timeout=timeout)
        for begin in range(0, len(chosen), _DEVICES_AT_A_TIME):
            some = chosen[begin : begin + _DEVICES_AT_A_TIME]
            rows = gather_requests(partial(self._session.read_device, take=parts.rows_of, timeout=timeout), some)
            parts.add(rows)
        taken_at, count = parts.finish()
        return tables, {"taken_at": taken_at, "devices": count, "complete": True, "server": self._session.base_url}

    def state_to_record(
        self, devices: list[str] | None, paths: Sequence[str] | None, timeout: float | None
    ) -> pd.DataFrame:
        """Return the state table at the start of a recording. A path may have no rows yet, so there is no warning."""
        tables, metadata = self.state_of(devices, paths, timeout)
        return to_pandas(tables, metadata)

    def state_at(self, instant: datetime | None, selection: Selection, timeout: float | None) -> pa.Table:
        """Return the state table at a time in the past, or the current one for ``None``."""
        from mirror_sdk.arrow_tables.columns import concat_with_metadata
        from mirror_sdk.snapshot.snapshot_request import SnapshotRequest

        request = SnapshotRequest(selection=selection, server=self._session.base_url, as_of=instant)
        tables, metadata = self.tables_of(request, timeout)
        return concat_with_metadata(tables, metadata, tz=None)

    def tables_of(
        self, request: SnapshotRequest, timeout: float | None = None
    ) -> tuple[list[pa.Table], dict[str, object]]:
        """Return the table of a snapshot in chunks, and its metadata."""
        import_locked("mirror_sdk.snapshot.table")
        from mirror_sdk.snapshot.table import snapshot_tables

        return snapshot_tables(request, *self.take_tables(request, timeout))

    def take_tables(
        self, request: SnapshotRequest, timeout: float | None = None
    ) -> tuple[SnapshotResult, list[pa.Table]]:
        tables: list[pa.Table] = []
        snapshot = self.take(request, tables.append, timeout)
        return snapshot, tables

    def take(self, request: SnapshotRequest, keep: TableSink, timeout: float | None = None) -> SnapshotResult:
        """Fetch a snapshot. ``keep`` receives the rows while they arrive."""
        import_locked("mirror_sdk.snapshot.snapshot_reader")
        from mirror_sdk.snapshot import snapshot_reader

        read = partial(snapshot_reader.read_snapshot, request, keep, self._session.max_snapshot_bytes)
        form: str | None = snapshot_reader.FIRST_FORM
        while form is not None:
            try:
                snapshot = self._session.sender.receive(request.operation(form), read, timeout)
            except APIError as error:
                form = snapshot_reader.next_form(request, form, error)
            else:
                for device_id in snapshot.missing:
                    # This raises the error for a missing device, unless the device has registered in the meantime.
                    self._session.sender.send(_operations.get_directory_device(device_id), timeout)
                return snapshot
        return self._take_one_by_one(request, keep, timeout)

    def _take_one_by_one(
        self, request: SnapshotRequest, keep: TableSink, timeout: float | None = None
    ) -> SnapshotResult:
        import_locked("mirror_sdk.arrow_tables.state")
        from mirror_sdk.arrow_tables.state import StateRows
        from mirror_sdk.snapshot.snapshot_reader import SnapshotResult

        parts = StateRows(keep, paths=request.selection.paths, raw=request.raw)
        chosen = self._ids_of(request.selection, timeout)
        with progress_bar(len(chosen), "devices") as bar:
            for begin in range(0, len(chosen), _DEVICES_AT_A_TIME):
                some = chosen[begin : begin + _DEVICES_AT_A_TIME]
                take = partial(self._session.read_device, take=parts.rows_of, timeout=timeout)
                parts.add(gather_concurrently(take, some))
                bar.update(len(some))
        taken_at, device_count = parts.finish()
        return SnapshotResult(taken_at=taken_at, device_count=device_count)

    def _ids_of(self, selection: Selection, timeout: float | None = None) -> Sequence[str]:
        if selection.names_devices:
            return sorted(selection.device_ids or ())
        return selection.ids_among(self._list_ids(selection.sent_filters, timeout))

    def _list_ids(self, filters: Mapping[str, str], timeout: float | None) -> list[str]:
        """Return the ids of the devices that match. Without a timeout, the client's timeout applies to each page."""
        devices = self._session.collect(partial(_operations.list_devices, filters, limit=None), timeout)
        return [device.id for device in devices]

    def read_history(
        self,
        request: HistoryRequest,
        keep: Callable[[pa.Table], object],
        timeout: float | None = None,
        *,
        raw: bool = False,
    ) -> HistoryResult:
        """Read a history to its end, also after interruptions. ``keep`` receives the rows while they arrive."""
        from mirror_sdk.history.history_reader import HistoryReader

        with progress_bar(0, "rows") as bar:
            reader = HistoryReader(request, keep, self._session.max_snapshot_bytes, bar, raw=raw)
            while (operation := reader.next_operation) is not None:
                try:
                    self._session.sender.receive(operation, reader.read, timeout)
                except ConnectionFailed as failure:
                    reader.require_progress(failure)
                except APIError as error:
                    reader.try_other_form(error)
        return reader.result

    def clock_of(self, *instants: InstantLike | None, timeout: float | None) -> Callable[[], datetime]:
        """Return the clock from which durations are subtracted. The service's clock is read only if needed."""
        if not any(map(is_span, instants)):
            return self._session.sender.clock.now
        import_locked("mirror_sdk.snapshot.snapshot_request")
        from mirror_sdk.snapshot.device_selection import Selection
        from mirror_sdk.snapshot.snapshot_request import SnapshotRequest

        request = SnapshotRequest(selection=Selection(filters={"id__eq": _NO_DEVICE}), server=self._session.base_url)
        _, metadata = self.tables_of(request, timeout)
        now = instant_like(
            "taken_at", metadata["taken_at"] or self._session.sender.clock.now(), self._session.sender.clock.now
        )
        return lambda: now

    def units_of(self, unitless: Unitless | None) -> pa.Table | None:
        """Return a state table with the reported units, or ``None`` if there are none or they cannot be read."""
        if unitless is None:
            return None
        import_locked("mirror_sdk.snapshot.snapshot_request")
        from mirror_sdk.snapshot.device_selection import Selection

        selection = Selection(device_ids=unitless.devices, paths=unitless.paths)
        try:
            try:
                return self.state_at(None, selection, None)
            except NotFound:
                # One of the devices was deleted in the meantime, but the units of the others are still needed.
                return self.state_at(None, replace(selection, device_ids=None), None)
        except MirrorError:
            # The units are optional, because the events are complete without them.
            return None

    def units_over_time(
        self, unitless: Unitless | None, request: HistoryRequest, result: HistoryResult
    ) -> NamedUnits | None:
        """Return the units that devices reported during a history, or ``None`` if the key may not read them."""
        from mirror_sdk.arrow_tables.history import HistoryTableBuilder
        from mirror_sdk.arrow_tables.units import NamedUnits, naming_paths

        state = self.units_of(unitless)
        if unitless is None or state is None:
            return None
        naming = HistoryTableBuilder(raw=False)
        begin = request.begin or instant_like("oldest_at", result.oldest_at, self._session.sender.clock.now)
        those = replace(request.selection, paths=naming_paths(unitless.paths))
        of_those = replace(request.selection, paths=unitless.paths)
        try:
            with without_progress():
                self.read_history(replace(request, selection=those, end=None, limit=None), naming.add)
                ((rows,), _) = naming.finish({})
                if not rows.num_rows:
                    return NamedUnits(state)
                return NamedUnits(state, self.state_at(begin, of_those, None), rows)
        except MirrorError:
            # The units are optional, because the history is complete without them.
            return NamedUnits(state)

    def with_paths_without_rows(
        self,
        metadata: dict[str, object],
        tables: list[pa.Table],
        paths: Sequence[str] | None,
        past: Selection | None = None,
        timeout: float | None = None,
    ) -> dict[str, object]:
        """Add the paths without rows to the metadata of a table, and warn if no device has any of these paths.

        Args:
            metadata: The metadata of the table.
            tables: The chunks of the table.
            paths: The requested paths.
            past: The selection of devices, if the table describes the past.
            timeout: The timeout of the whole call in seconds.
        """
        import_locked("mirror_sdk.history.paths_without_rows", "mirror_sdk.snapshot.snapshot_request")
        from mirror_sdk.history.paths_without_rows import (
            find_paths_without_rows,
            warn_of_unknown_paths,
            with_paths_without_rows,
        )
        from mirror_sdk.snapshot.snapshot_request import SnapshotRequest

        patterns = list(paths or ())
        metadata = with_paths_without_rows(metadata, tables, patterns)
        if not patterns or metadata.get("paths_without_rows") != patterns:
            return metadata
        if past is None:
            warn_of_unknown_paths(patterns)
            return metadata
        # A mistyped path has no events, like a resource that never changed. Only the mirror knows whether it exists.
        try:
            request = SnapshotRequest(selection=past, server=self._session.base_url)
            known, _ = self.tables_of(request, timeout)
        except MirrorError:
            # The warning is optional, because the table is complete without it.
            return metadata
        if find_paths_without_rows(known, patterns) == patterns:
            warn_of_unknown_paths(patterns, ", now or in this history")
        return metadata
