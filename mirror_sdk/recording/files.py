"""Reads and writes the files of a recording. Each is written completely or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from mirror_sdk._disk import sync
from mirror_sdk._file_version import file_fault
from mirror_sdk.errors import InvalidValue, RecordingDamaged
from mirror_sdk.frames.files import read_parquet
from mirror_sdk.recording.coverage import Span, merge, read_spans, write_spans
from mirror_sdk.recording.layout import (
    about_path,
    journal_numbers,
    journal_path,
    part_numbers,
    part_path,
    rules_path,
    sidecar_of,
    state_numbers,
    state_path,
    unfinished_path,
)
from mirror_sdk.snapshot.contract import require_instants
from mirror_sdk.tables.columns import categories_of
from mirror_sdk.tables.events import EVENTS_RAW_SCHEMA
from mirror_sdk.tables.state import STATE_SCHEMA
from mirror_sdk.wire.subscriptions import PresubscriptionRule

STORED_SCHEMA = pa.schema(
    [
        pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in EVENTS_RAW_SCHEMA
    ]
)
"""The events table with texts instead of categories, whose sets would differ from file to file."""

_WORDS = {field.name: frozenset(categories_of(field)) for field in EVENTS_RAW_SCHEMA if categories_of(field)}
_MAX_FINALIZED_WHILE_LISTED = 1000
_INSTANTS = [field.name for field in STORED_SCHEMA if pa.types.is_timestamp(field.type)]

_ABOUT = b"mirror_recording"
_COVERAGE = b"mirror_coverage"
VERSION: Final = 2


class About(BaseModel):
    """What is recorded. A recorder continues a recording only if all of this is the same.

    The ``key`` identifies the access key; it is left out of finalized files. By the ``id`` a sidecar folder is matched
    with its recording.
    """

    version: Literal[2]
    id: str | None = None
    server: str
    key: str | None = None
    devices: list[str] | None
    paths: list[str] | None


class _Rules(BaseModel):
    """The rules that a recorder added to those of an access key."""

    server: str
    key: str | None
    rules: list[PresubscriptionRule]


class Piece(NamedTuple):
    """The content of a finalized file or a journal: events, and the part of the log that they cover."""

    events: pa.Table
    spans: list[Span]
    is_finalized: bool


def read_about(folder: Path) -> About | None:
    """Return what the recording in a folder records; ``None`` if there is no recording.

    A folder that was copied without its sidecar is a recording. The sidecar of a folder that was removed is not.

    Raises:
        InvalidValue: The folder contains something else or a recording of another format version, or its sidecar
            belongs to another recording.
    """
    numbers = part_numbers(folder)
    if not numbers:
        return None
    of_part = _about_of_part(part_path(folder, numbers[0]))
    of_sidecar = _about_of_sidecar(about_path(folder))
    if of_part is not None and of_sidecar is not None and of_part.id != of_sidecar.id:
        raise InvalidValue(
            f"{sidecar_of(folder)} belongs to another recording than {folder}; copy the one that was next to it, or"
            " remove it"
        )
    return of_sidecar or of_part


def write_about(folder: Path, about: About) -> None:
    """Write what is recorded, for the next recorder."""
    unfinished_path(folder).write_text(about.model_dump_json(), encoding="utf-8")
    _finish(folder, about_path(folder))


def read_rules(folder: Path, about: About) -> list[PresubscriptionRule]:
    """Return the rules to remove when the recording ends.

    Raises:
        RecordingDamaged: The file is damaged.
    """
    path = rules_path(folder)
    try:
        noted = _Rules.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except ValidationError as exc:
        raise RecordingDamaged(
            f"{path} is damaged; remove it, and yourself remove the rules of a recorder:"
            " client.subscriptions.rules.list() shows them"
        ) from exc
    # The sidecar of a folder that was removed may have rules of another access key.
    return noted.rules if (noted.server, noted.key) == (about.server, about.key) else []


def write_rules(folder: Path, about: About, rules: Sequence[PresubscriptionRule]) -> None:
    """Write the rules to remove when the recording ends."""
    if not rules:
        rules_path(folder).unlink(missing_ok=True)
        return
    noted = _Rules(server=about.server, key=about.key, rules=list(rules))
    unfinished_path(folder).write_text(noted.model_dump_json(by_alias=True, exclude_unset=True), encoding="utf-8")
    _finish(folder, rules_path(folder))


def event_numbers(folder: Path) -> list[int]:
    """Return the numbers of all files with events, in order, and of some that do not exist.

    The list of a folder may lack files that are finalized while it is made. Small gaps are therefore filled. A large
    gap comes from a file that was renamed.
    """
    found = sorted({*journal_numbers(folder), *part_numbers(folder)})
    between = (range(one + 1, other) for one, other in pairwise(found) if other - one <= _MAX_FINALIZED_WHILE_LISTED)
    return sorted([*found, *chain.from_iterable(between)])


def read_part(folder: Path, number: int) -> Piece:
    """Return the content of a finalized file.

    Raises:
        FileNotFoundError: It does not exist.
        RecordingDamaged: It is damaged.
    """
    with _undamaged(part_path(folder, number)) as path:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        metadata = table.schema.metadata or {}
        if _COVERAGE not in metadata:
            raise ValueError("its coverage is missing")
        return Piece(_checked(table.replace_schema_metadata(None)), read_spans(metadata[_COVERAGE]), is_finalized=True)


def last_span(folder: Path) -> Span | None:
    """Return the last span that the finalized files cover; ``None`` if they cover nothing.

    Raises:
        RecordingDamaged: The file with this span is damaged.
    """
    for number in reversed(part_numbers(folder)):
        if spans := read_part(folder, number).spans:
            return spans[-1]
    return None


def read_journal(folder: Path, number: int) -> Piece:
    """Return the content of a journal without its cut-off end.

    Raises:
        FileNotFoundError: It does not exist.
    """
    tables, spans = [STORED_SCHEMA.empty_table()], []
    with journal_path(folder, number).open("rb") as journal:
        for table, span in _whole_batches(journal):
            tables.append(table)
            spans += span
    return Piece(pa.concat_tables(tables), merge(spans), is_finalized=False)


def read_state(folder: Path, number: int) -> pd.DataFrame:
    """Return a state table.

    Raises:
        FileNotFoundError: It does not exist.
        RecordingDamaged: It is damaged.
    """
    with _undamaged(state_path(folder, number)) as path:
        state = read_parquet(path)
        about = state.attrs["mirror"]
        pd.Timestamp(about["taken_at"]), int(about["devices"])
        columns: pd.DataFrame = state[STATE_SCHEMA.names]
        columns.attrs = state.attrs
        return columns


def read_numbered(folder: Path, number: int) -> Piece:
    """Return the content of the file with this number, also while it is finalized; nothing if it was removed.

    Raises:
        RecordingDamaged: The finalized file is damaged.
    """
    # A journal is removed after its finalized file was written. If both are missing, it was finalized in between.
    for read in (read_part, read_journal, read_part):
        with suppress(FileNotFoundError):
            return read(folder, number)
    return Piece(STORED_SCHEMA.empty_table(), [], is_finalized=True)


def batch_metadata(span: Span | None) -> dict[bytes, bytes]:
    """Return the metadata of a batch of a journal."""
    return {} if span is None else {_COVERAGE: write_spans([span])}


def finalize(folder: Path, number: int, about: About) -> None:
    """Finalize a journal. After an interruption at any moment, either the journal or the finalized file exists."""
    write_part(folder, number, read_journal(folder, number), about)
    remove_journal(folder, number)


def write_part(folder: Path, number: int, piece: Piece, about: About) -> None:
    """Write a finalized file."""
    # People to whom the folder is passed on have no use for the key.
    metadata = {_ABOUT: about.model_dump_json(exclude={"key"}).encode(), _COVERAGE: write_spans(piece.spans)}
    pq.write_table(
        piece.events.replace_schema_metadata(metadata),
        unfinished_path(folder),
        compression="zstd",
        write_page_checksum=True,
    )
    _finish(folder, part_path(folder, number))


def remove_journal(folder: Path, number: int) -> None:
    """Remove a journal."""
    journal_path(folder, number).unlink(missing_ok=True)


def write_state(folder: Path, state: pd.DataFrame) -> None:
    """Write one more state table."""
    number = max(state_numbers(folder), default=0) + 1
    state.to_parquet(unfinished_path(folder), write_page_checksum=True)
    _finish(folder, state_path(folder, number))


def clear_sidecar(folder: Path) -> None:
    """Remove the files of a recording whose folder was removed, except for its rules."""
    about_path(folder).unlink(missing_ok=True)
    for number in journal_numbers(folder):
        remove_journal(folder, number)
    for number in state_numbers(folder):
        state_path(folder, number).unlink(missing_ok=True)


def _about_of_sidecar(path: Path) -> About | None:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _parse_about(path, content)


def _about_of_part(path: Path) -> About | None:
    """Return what a finalized file records; nothing if it is damaged."""
    try:
        content: bytes = pq.read_schema(path).metadata[_ABOUT]
    except (pa.ArrowException, OSError, LookupError, TypeError):
        return None
    return _parse_about(path, content)


def _parse_about(path: Path, content: bytes) -> About:
    try:
        return About.model_validate_json(content)
    except ValidationError as exc:
        raise InvalidValue(
            f"{path} cannot be read ({file_fault(content, exc, VERSION)}); give another folder, or read it with the"
            " version of mirror_sdk that wrote it"
        ) from exc


def _finish(folder: Path, target: Path) -> None:
    """Put the unfinished file in its place, once it is on disk."""
    unfinished = unfinished_path(folder)
    sync(unfinished)
    try:
        unfinished.replace(target)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        raise InvalidValue(f"{folder} is on another disk than its parent folder; give a folder inside of it") from exc
    sync(target.parent)


def _whole_batches(journal: BinaryIO) -> Iterator[tuple[pa.Table, list[Span]]]:
    try:
        for batch, metadata in pa.ipc.open_stream(journal).iter_batches_with_custom_metadata():
            batch.validate(full=True)
            coverage = (metadata or {}).get(_COVERAGE)
            yield _checked(pa.Table.from_batches([batch])), [] if coverage is None else read_spans(coverage)
    except (pa.ArrowException, MemoryError, OSError, ValueError):
        # It was cut off while it was written. The rest was not recorded, and is read from the log again.
        return


@contextmanager
def _undamaged(path: Path) -> Iterator[Path]:
    """Turn errors in the content of a file into :class:`RecordingDamaged`; other errors of reading it remain."""
    try:
        yield path
    except FileNotFoundError:
        raise
    except OSError as exc:
        # Arrow reports damage as an OSError without a number.
        if exc.errno is not None:
            raise
        raise _damaged(path, exc) from exc
    except (pa.ArrowException, MemoryError, ValueError, TypeError, LookupError) as exc:
        raise _damaged(path, exc) from exc


def _damaged(path: Path, problem: Exception) -> RecordingDamaged:
    reason = str(problem).partition("\n")[0] or type(problem).__name__
    return RecordingDamaged(
        f"{path} is damaged ({reason}); restore it from a copy, or remove it: its content is missing then, and the"
        " audit reports that"
    )


def _checked(table: pa.Table) -> pa.Table:
    """Return the table if it is a valid table of events.

    Raises:
        ValueError: Its columns differ, or contain an invalid word or time.
    """
    if not table.schema.equals(STORED_SCHEMA):
        raise ValueError("its columns are not those of events")
    for name, words in _WORDS.items():
        strange = set(table[name].unique().to_pylist()) - words - {None}
        if strange:
            raise ValueError(f"{strange.pop()!r} is not a valid {name}")
    for name in _INSTANTS:
        require_instants(name, table[name])
    return table
