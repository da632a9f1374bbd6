"""Reading a recording, also while it is being made."""

from __future__ import annotations

from datetime import datetime
from os import PathLike
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.errors import ValueRefused
from mirror_sdk.events import EventKind
from mirror_sdk.frames.columns import based_on, build, moment
from mirror_sdk.frames.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA
from mirror_sdk.recording import files, replay
from mirror_sdk.recording.audit import Audit, audit
from mirror_sdk.recording.coverage import Span, merge


class Recording:
    """A recording in a folder. Every method reads the files anew, so that one that grows is seen as it is.

    Every method may raise :class:`RecordingDamaged`: a file is not as it was written; the message names it.

    Args:
        path: The folder, as it was given to ``client.record``.

    Raises:
        FileNotFoundError: There is no recording.
        ValueRefused: The folder holds something else.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = Path(path)
        about = files.read_about(self.path)
        if about is None:
            raise FileNotFoundError(f"{self.path} is no recording; client.record({str(self.path)!r}) makes one")
        self._about = about

    def __repr__(self) -> str:
        return f"<Recording {self.path}>"

    def events(self, *, raw: bool = False, tz: str | None = None) -> pd.DataFrame:
        """The events table, each event once; see :func:`mirror_sdk.frames.events_frame`.

        Args:
            raw: Whether the payloads stand in ``value_raw``.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.

        Raises:
            ValueRefused: ``tz`` is no time zone.

        >>> with client.record(folder / "run.parquet"):
        ...     client.put_presubscriptions([{"resource_path": ["/3303/*"]}])
        ...     bench.register(station)
        >>> Recording(folder / "run.parquet").events()["event"].tolist()
        ['registration', 'observation']
        """
        table, spans = self._read()
        schema = EVENTS_RAW_SCHEMA if raw else EVENTS_SCHEMA
        columns = {name: table.column(name).to_pylist() for name in schema.names}
        found = _audit(table, spans, duplicates=0)
        about = based_on(columns["device_id"], found.until_at, complete=found.complete, server=self._about.server)
        return build(columns, schema, tz=tz, **about)

    def audit(self) -> Audit:
        """Whether it is complete, from when to when, and what is missing.

        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> recorder.recording.audit().events
        0
        """
        table, spans = self._read(distinct=False)
        distinct = _distinct(table)
        return _audit(distinct, spans, duplicates=table.num_rows - distinct.num_rows)

    def as_of(self, instant: datetime, *, tz: str | None = None) -> pd.DataFrame:
        """The state table as it was at an instant: what was last observed by then, upon the state at the beginning.

        Times are those of the devices' changes (``changed_at``). The log tells nothing of desired values, so their
        columns hold nothing, nor of values that were read without being observed.

        Args:
            instant: Which instant, with its time zone.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.

        Returns:
            A state table, see :func:`mirror_sdk.frames.state_frame`; ``attrs["mirror"]["complete"]`` is false when
            something is missing from the recording or the instant lies behind its end.

        Raises:
            ValueRefused: The instant is naive or lies before the recording, or ``tz`` is no time zone.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> state = recorder.recording.as_of(bench.get_clock())
        >>> state["reported_num"].dropna().tolist()
        [21.5]
        """
        moment("instant", instant)
        table, spans = self._read()
        history = replay.history(table, self._states())
        known_until = max((span.until_at for span in spans), default=None)
        complete = _audit(table, spans, duplicates=0).complete and known_until is not None and instant <= known_until
        return replay.as_of(history, instant, complete=complete, server=self._about.server, tz=tz)

    def changes(self, begin: datetime, end: datetime, *, tz: str | None = None) -> pd.DataFrame:
        """What changed between two instants: one row per resource that was observed then, with both its values.

        Args:
            begin: From behind this instant on, with its time zone.
            end: Up to this instant.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.

        Returns:
            A frame with the columns of :data:`~mirror_sdk.recording.CHANGES_SCHEMA`, also when it has no rows; see
            :func:`mirror_sdk.recording.replay.changes`.

        Raises:
            ValueRefused: An instant is naive or lies before the recording, or the end lies before the beginning.

        >>> begin = bench.get_clock()
        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> len(recorder.recording.changes(begin, bench.advance(60)))
        0
        """
        moment("begin", begin)
        moment("end", end)
        if end < begin:
            raise ValueRefused(f"end={end} lies before begin={begin}; give them in their order")
        table, _ = self._read()
        return replay.changes(replay.history(table, self._states()), begin, end, tz=tz)

    def _read(self, *, distinct: bool = True) -> tuple[pa.Table, list[Span]]:
        tables, spans = [files.STORED_SCHEMA.empty_table()], []
        for number in files.event_numbers(self.path):
            table, covered = files.read_numbered(self.path, number)
            tables.append(table)
            spans += covered
        whole = pa.concat_tables(tables).combine_chunks()
        return _distinct(whole) if distinct else whole, merge(spans)

    def _states(self) -> list[pd.DataFrame]:
        return [files.read_state(self.path, number) for number in files.state_numbers(self.path)]


def read_recording(path: str | PathLike[str], *, raw: bool = False, tz: str | None = None) -> pd.DataFrame:
    """The events table of a recording; see :meth:`Recording.events`.

    Raises:
        FileNotFoundError: There is no recording.
        RecordingDamaged: A file is not as it was written; the message names it.
        ValueRefused: The folder holds something else, or ``tz`` is no time zone.
    """
    return Recording(path).events(raw=raw, tz=tz)


def _distinct(table: pa.Table) -> pa.Table:
    """Each entry once, the first time it came; what has no identity stays."""
    seen: set[str] = set()
    kept = []
    for index, uid in enumerate(table.column("uid").to_pylist()):
        if uid is None or uid not in seen:
            kept.append(index)
            seen.add(uid)
    return table if len(kept) == table.num_rows else table.take(kept)


def _audit(table: pa.Table, spans: list[Span], *, duplicates: int) -> Audit:
    gaps = table.filter(pc.equal(table["event"], EventKind.GAP.value))
    numbers = list(zip(gaps["first_seq"].to_pylist(), gaps["seq"].to_pylist(), strict=True))
    return audit(spans, numbers, table.num_rows - gaps.num_rows, duplicates)
