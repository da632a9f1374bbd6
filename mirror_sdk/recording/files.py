"""The files of a recording, and what each holds.

``part-000001.parquet`` are sealed and hold events. ``_journal-000002.arrows`` is what is being written: an Arrow stream
of which a cut-off end is left out. ``_state-000001.parquet`` are state tables to begin from. ``_recording.json`` says
what is recorded. Names with an underscore are passed over by pandas and Arrow when they read the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from mirror_sdk.errors import RecordingDamaged, ValueRefused
from mirror_sdk.frames.columns import categories_of
from mirror_sdk.frames.events import EVENTS_RAW_SCHEMA
from mirror_sdk.frames.files import read_parquet
from mirror_sdk.frames.state import REVISIONS, STATE_SCHEMA
from mirror_sdk.recording.coverage import Span, merge, read_spans, write_spans

STORED_SCHEMA = pa.schema(
    [
        pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in EVENTS_RAW_SCHEMA
    ]
)
"""The events table with plain texts in the place of categories, whose sets would differ from file to file."""

_WORDS = {field.name: frozenset(categories_of(field)) for field in EVENTS_RAW_SCHEMA if categories_of(field)}
_INSTANTS = [field.name for field in STORED_SCHEMA if pa.types.is_timestamp(field.type)]
_MILLISECONDS = range(-62_135_596_800_000, 253_402_300_800_000)
"""Of the years 1 to 9999, since 1970."""

_NOT_IN_OLD_ONES = {"endpoint_name", "unit"}

_SPAN = b"span"
_SPANS = b"mirror_spans"


class About(BaseModel):
    """What a recording is of; two with other answers cannot be one. ``key`` is not told by old recordings."""

    version: int = 1
    server: str
    key: str | None = None
    devices: list[str] | None
    paths: list[str] | None


def read_about(folder: Path) -> About | None:
    """What the recording in a folder is of; ``None`` where there is none.

    Raises:
        ValueRefused: The folder holds something else.
    """
    try:
        return About.model_validate_json((folder / "_recording.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as exc:
        raise ValueRefused(f"{folder / '_recording.json'} is not that of a recording; give another folder") from exc


def write_about(folder: Path, about: About) -> None:
    """Make a folder a recording."""
    replace_file(folder / "_recording.json", about.model_dump_json().encode())


def part_numbers(folder: Path) -> list[int]:
    """The numbers of the sealed files, in order."""
    return _numbers(folder, "part-*.parquet")


def journal_numbers(folder: Path) -> list[int]:
    """The numbers of the journals that were not sealed, in order."""
    sealed = set(part_numbers(folder))
    return [number for number in _numbers(folder, "_journal-*.arrows") if number not in sealed]


def state_numbers(folder: Path) -> list[int]:
    """The numbers of the state tables, in order."""
    return _numbers(folder, "_state-*.parquet")


def event_numbers(folder: Path) -> list[int]:
    """The numbers of all files with events, sealed or not, in order.

    Files that were sealed while the folder was listed may be missing from the list, but not from the folder.
    """
    found = {*_numbers(folder, "_journal-*.arrows"), *part_numbers(folder)}
    return list(range(min(found), max(found) + 1)) if found else []


def part_path(folder: Path, number: int) -> Path:
    """Where a sealed file is."""
    return folder / f"part-{number:06}.parquet"


def journal_path(folder: Path, number: int) -> Path:
    """Where a journal is."""
    return folder / f"_journal-{number:06}.arrows"


def state_path(folder: Path, number: int) -> Path:
    """Where a state table is."""
    return folder / f"_state-{number:06}.parquet"


def read_part(folder: Path, number: int) -> tuple[pa.Table, list[Span]]:
    """Events and coverage of a sealed file.

    Raises:
        RecordingDamaged: It is not as it was written.
    """
    with _undamaged(part_path(folder, number)) as path:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        spans = read_spans(table.schema.metadata[_SPANS])
        return _checked(_of_now(table.replace_schema_metadata(None))), spans


def read_journal(folder: Path, number: int) -> tuple[pa.Table, list[Span]]:
    """Events and coverage of a journal, as far as it was written to its end."""
    batches, spans = [], []
    for batch, span in _whole_batches(journal_path(folder, number)):
        batches.append(batch)
        spans += span
    return pa.concat_tables([STORED_SCHEMA.empty_table(), *batches]), merge(spans)


def read_state(folder: Path, number: int) -> pd.DataFrame:
    """A state table.

    Raises:
        RecordingDamaged: It is not as it was written.
    """
    with _undamaged(state_path(folder, number)) as path:
        state = read_parquet(path)
        about = state.attrs["mirror"]
        pd.Timestamp(about["taken_at"]), int(about["devices"])
        for name in set(REVISIONS) - set(state.columns):
            state[name] = pd.array([pd.NA] * len(state), dtype="Int64")
        columns: pd.DataFrame = state[STATE_SCHEMA.names]
        columns.attrs = state.attrs
        return columns


def read_numbered(folder: Path, number: int) -> tuple[pa.Table, list[Span]]:
    """Events and coverage under a number, also while its journal is being sealed; nothing where a user removed it.

    Raises:
        RecordingDamaged: The sealed file is not as it was written.
    """
    # A journal is removed when its sealed file is there, so one that is gone after the first look was sealed since.
    for read in (read_part, read_journal, read_part):
        try:
            return read(folder, number)
        except FileNotFoundError:
            continue
    return STORED_SCHEMA.empty_table(), []


def batch_metadata(span: Span | None) -> dict[bytes, bytes]:
    """What stands beside a batch of a journal."""
    return {} if span is None else {_SPAN: write_spans([span])}


def seal(folder: Path, number: int) -> None:
    """Make a Parquet file of a journal; cut off at any moment, either of them is whole."""
    table, spans = read_journal(folder, number)
    target = part_path(folder, number)
    unfinished = target.with_suffix(".unfinished")
    pq.write_table(
        table.replace_schema_metadata({_SPANS: write_spans(spans)}),
        unfinished,
        compression="zstd",
        write_page_checksum=True,
    )
    _move(unfinished, target)
    journal_path(folder, number).unlink()


def replace_file(target: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    unfinished = target.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    _move(unfinished, target)


def _move(unfinished: Path, target: Path) -> None:
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(target)


def _numbers(folder: Path, pattern: str) -> list[int]:
    return sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob(pattern))


def _whole_batches(journal: Path) -> Iterator[tuple[pa.Table, list[Span]]]:
    with journal.open("rb") as file:
        try:
            stream = pa.ipc.open_stream(file)
            while True:
                batch, metadata = stream.read_next_batch_with_custom_metadata()
                batch.validate(full=True)
                spans = read_spans(metadata[_SPAN]) if metadata and _SPAN in metadata else []
                yield _checked(_of_now(pa.Table.from_batches([batch]))), spans
        except (StopIteration, pa.ArrowException, MemoryError, OSError, ValueError):
            # Cut off while it was written: what is not whole was not recorded, and is read from the log again.
            return


@contextmanager
def _undamaged(path: Path) -> Iterator[Path]:
    """Tell what goes wrong while a file is read as damage of this file; that it cannot be opened is told as it is."""
    try:
        yield path
    except OSError as exc:
        # Arrow tells of damage without a number.
        if exc.errno is not None:
            raise
        raise _damaged(path, exc) from exc
    except (pa.ArrowException, MemoryError, ValueError, TypeError, LookupError) as exc:
        raise _damaged(path, exc) from exc


def _damaged(path: Path, problem: Exception) -> RecordingDamaged:
    reason = str(problem).partition("\n")[0] or type(problem).__name__
    return RecordingDamaged(
        f"{path} is damaged ({reason}); bring it back from a copy, or remove it: what it held is missing then, and the"
        " audit says so"
    )


def _of_now(table: pa.Table) -> pa.Table:
    """The table with the columns that recordings of an older version do not have."""
    if set(STORED_SCHEMA.names) - set(table.column_names) != _NOT_IN_OLD_ONES:
        return table
    for field in filter(lambda field: field.name in _NOT_IN_OLD_ONES, STORED_SCHEMA):
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(STORED_SCHEMA.names) if set(table.column_names) == set(STORED_SCHEMA.names) else table


def _checked(table: pa.Table) -> pa.Table:
    """The table, if it is one of events.

    Raises:
        ValueError: Its columns are others, or hold words or times that are none.
    """
    if not table.schema.equals(STORED_SCHEMA):
        raise ValueError("its columns are not those of events")
    for name, words in _WORDS.items():
        strange = set(table[name].unique().to_pylist()) - words - {None}
        if strange:
            raise ValueError(f"{strange.pop()!r} is no {name}")
    for name in _INSTANTS:
        ends = pc.min_max(table[name].cast(pa.int64()))
        if any(end is not None and end not in _MILLISECONDS for end in ends.as_py().values()):
            raise ValueError(f"{name} holds what is no time")
    return table
