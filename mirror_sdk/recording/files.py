"""Functions that read and write the files of a recording.

Each file is written either completely or not at all.
"""

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

from mirror_sdk._file_version import file_fault
from mirror_sdk._fsync import fsync
from mirror_sdk.arrow_tables.columns import categories_of
from mirror_sdk.arrow_tables.events import EVENTS_RAW_SCHEMA
from mirror_sdk.arrow_tables.state import STATE_SCHEMA
from mirror_sdk.errors import InvalidValue, RecordingDamaged
from mirror_sdk.frames.files import read_parquet
from mirror_sdk.recording.file_names import (
    journal_numbers,
    journal_path,
    part_numbers,
    part_path,
    rules_path,
    settings_path,
    sidecar_of,
    state_numbers,
    state_path,
    unfinished_path,
)
from mirror_sdk.recording.log_spans import LogSpan, merge, read_spans, write_spans
from mirror_sdk.snapshot.batch_checks import require_instants
from mirror_sdk.wire.subscriptions import PresubscriptionRule

STORED_SCHEMA = pa.schema(
    [
        pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in EVENTS_RAW_SCHEMA
    ]
)
"""The schema of events with strings instead of categories, because categories would differ from file to file."""

_WORDS = {field.name: frozenset(categories_of(field)) for field in EVENTS_RAW_SCHEMA if categories_of(field)}
_MAX_FINALIZED_WHILE_LISTED = 1000
_INSTANTS = [field.name for field in STORED_SCHEMA if pa.types.is_timestamp(field.type)]

_SETTINGS = b"mirror_recording"
_COVERAGE = b"mirror_coverage"
VERSION: Final = 2


class RecordingSettings(BaseModel):
    """The settings of a recording.

    A recorder continues a recording only if all settings are the same. ``key`` identifies the access key that the
    recorder used. It is omitted from finalized files. ``id`` is the same in the recording and in its sidecar folder, so
    that the two can be matched.
    """

    version: Literal[2]
    id: str | None = None
    server: str
    key: str | None = None
    devices: list[str] | None
    paths: list[str] | None


class _Rules(BaseModel):
    """The rules that a recorder added to the rules of an access key."""

    server: str
    key: str | None
    rules: list[PresubscriptionRule]


class FileContent(NamedTuple):
    """The content of a finalized file or a journal: the events, and the spans of the log that they cover."""

    events: pa.Table
    spans: list[LogSpan]
    is_finalized: bool


def read_settings(folder: Path) -> RecordingSettings | None:
    """Return the settings of the recording in a folder, or ``None`` if the folder does not contain a recording.

    A folder that was copied without its sidecar is still a recording. A sidecar whose folder was removed is not.

    Raises:
        InvalidValue: The folder contains something else or a recording of another format version, or the sidecar
            belongs to another recording.
    """
    numbers = part_numbers(folder)
    if not numbers:
        return None
    # Every finalized file has the settings. The first finalized file always exists, because it is written immediately.
    finalized = _finalized_settings(part_path(folder, numbers[0]))
    sidecar = _sidecar_settings(settings_path(folder))
    if finalized is not None and sidecar is not None and finalized.id != sidecar.id:
        raise InvalidValue(
            f"{sidecar_of(folder)} belongs to another recording than {folder}; replace {sidecar_of(folder)} with"
            " the folder of this recording, or remove it"
        )
    return sidecar or finalized


def write_settings(folder: Path, settings: RecordingSettings) -> None:
    """Write the settings for the next recorder."""
    unfinished_path(folder).write_text(settings.model_dump_json(), encoding="utf-8")
    _finish(folder, settings_path(folder))


def read_rules(folder: Path, settings: RecordingSettings) -> list[PresubscriptionRule]:
    """Return the rules to remove when the recording ends.

    Raises:
        RecordingDamaged: The file is damaged.
    """
    path = rules_path(folder)
    try:
        saved = _Rules.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except ValidationError as exc:
        raise RecordingDamaged(
            f"{path} is damaged, so the recorder does not know which presubscription rules it added. Remove the file."
            " Then compare client.subscriptions.rules.list() with the rules you need, and remove the others with"
            " client.subscriptions.rules.remove()"
        ) from exc
    # If the folder was removed, its sidecar may contain rules of another access key.
    return saved.rules if (saved.server, saved.key) == (settings.server, settings.key) else []


def write_rules(folder: Path, settings: RecordingSettings, rules: Sequence[PresubscriptionRule]) -> None:
    """Write the rules to remove when the recording ends."""
    if not rules:
        rules_path(folder).unlink(missing_ok=True)
        return
    saved = _Rules(server=settings.server, key=settings.key, rules=list(rules))
    unfinished_path(folder).write_text(saved.model_dump_json(by_alias=True, exclude_unset=True), encoding="utf-8")
    _finish(folder, rules_path(folder))


def event_numbers(folder: Path) -> list[int]:
    """Return the numbers of all files with events, in order. Some of the numbers may have no file.

    Files that are finalized while the folder is listed may be missing from the list. Small gaps in the numbers are
    therefore filled. A large gap comes from a file that was renamed.
    """
    found = sorted({*journal_numbers(folder), *part_numbers(folder)})
    between = (range(one + 1, other) for one, other in pairwise(found) if other - one <= _MAX_FINALIZED_WHILE_LISTED)
    return sorted([*found, *chain.from_iterable(between)])


def read_part(folder: Path, number: int) -> FileContent:
    """Return the content of a finalized file.

    Raises:
        FileNotFoundError: The file does not exist.
        RecordingDamaged: The file is damaged.
    """
    with _undamaged(part_path(folder, number)) as path:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        metadata = table.schema.metadata or {}
        if _COVERAGE not in metadata:
            raise ValueError("its metadata does not contain the log range")
        spans = read_spans(metadata[_COVERAGE])
        return FileContent(_checked(table.replace_schema_metadata(None)), spans, is_finalized=True)


def last_span(folder: Path) -> LogSpan | None:
    """Return the last span that the finalized files cover, or ``None`` if they cover nothing.

    Raises:
        RecordingDamaged: The file with this span is damaged.
    """
    for number in reversed(part_numbers(folder)):
        if spans := read_part(folder, number).spans:
            return spans[-1]
    return None


def read_journal(folder: Path, number: int) -> FileContent:
    """Return the content of a journal without an incomplete end.

    Raises:
        FileNotFoundError: The journal does not exist.
    """
    tables, spans = [STORED_SCHEMA.empty_table()], []
    with journal_path(folder, number).open("rb") as journal:
        # A recorder may be writing to the journal at the same time.
        for table, span in _complete_batches(journal):
            tables.append(table)
            spans += span
    return FileContent(pa.concat_tables(tables), merge(spans), is_finalized=False)


def read_state(folder: Path, number: int) -> pd.DataFrame:
    """Return a stored state table.

    Raises:
        FileNotFoundError: The file does not exist.
        RecordingDamaged: The file is damaged.
    """
    with _undamaged(state_path(folder, number)) as path:
        state = read_parquet(path)
        metadata = state.attrs["mirror"]
        # The metadata are converted here only to raise an error if they are damaged.
        pd.Timestamp(metadata["taken_at"]), int(metadata["devices"])
        columns: pd.DataFrame = state[STATE_SCHEMA.names]
        columns.attrs = state.attrs
        return columns


def read_numbered(folder: Path, number: int) -> FileContent:
    """Return the content of the file with this number, even while it is being finalized.

    The content is empty if the file was removed.

    Raises:
        RecordingDamaged: The finalized file is damaged.
    """
    # A journal is removed after its finalized file was written. If both were missing, it was finalized between the two
    # reads.
    for read in (read_part, read_journal, read_part):
        with suppress(FileNotFoundError):
            return read(folder, number)
    return FileContent(STORED_SCHEMA.empty_table(), [], is_finalized=True)


def batch_metadata(span: LogSpan | None) -> dict[bytes, bytes]:
    """Return the metadata of a batch of a journal."""
    return {} if span is None else {_COVERAGE: write_spans([span])}


def finalize(folder: Path, number: int, settings: RecordingSettings) -> None:
    """Finalize a journal.

    If this is interrupted at any time, either the journal or the finalized file exists.
    """
    write_part(folder, number, read_journal(folder, number), settings)
    remove_journal(folder, number)


def write_part(folder: Path, number: int, content: FileContent, settings: RecordingSettings) -> None:
    """Write a finalized file."""
    # The key is of no use in a copy of the folder.
    metadata = {
        _SETTINGS: settings.model_dump_json(exclude={"key"}).encode(),
        _COVERAGE: write_spans(content.spans),
    }
    pq.write_table(
        content.events.replace_schema_metadata(metadata),
        unfinished_path(folder),
        compression="zstd",
        write_page_checksum=True,
    )
    _finish(folder, part_path(folder, number))


def remove_journal(folder: Path, number: int) -> None:
    """Remove a journal."""
    journal_path(folder, number).unlink(missing_ok=True)


def write_state(folder: Path, state: pd.DataFrame) -> None:
    """Write another state table."""
    number = max(state_numbers(folder), default=0) + 1
    state.to_parquet(unfinished_path(folder), write_page_checksum=True)
    _finish(folder, state_path(folder, number))


def clear_sidecar(folder: Path) -> None:
    """Remove the sidecar files of a recording whose folder was removed, except for its rules."""
    settings_path(folder).unlink(missing_ok=True)
    for number in journal_numbers(folder):
        remove_journal(folder, number)
    for number in state_numbers(folder):
        state_path(folder, number).unlink(missing_ok=True)


def _sidecar_settings(path: Path) -> RecordingSettings | None:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _parse_settings(path, content)


def _finalized_settings(path: Path) -> RecordingSettings | None:
    """Return the settings in a finalized file, or ``None`` if the file is damaged."""
    try:
        content: bytes = pq.read_schema(path).metadata[_SETTINGS]
    except (pa.ArrowException, OSError, LookupError, TypeError):
        return None
    return _parse_settings(path, content)


def _parse_settings(path: Path, content: bytes) -> RecordingSettings:
    try:
        return RecordingSettings.model_validate_json(content)
    except ValidationError as exc:
        raise InvalidValue(
            f"{path} cannot be read ({file_fault(content, exc, VERSION)}); use another folder, or read it with the"
            " version of mirror_sdk that wrote it"
        ) from exc


def _finish(folder: Path, target: Path) -> None:
    """Flush the unfinished file to disk, and then rename it."""
    unfinished = unfinished_path(folder)
    fsync(unfinished)
    try:
        unfinished.replace(target)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        raise InvalidValue(
            f"{folder} and its parent folder are on different disks; use a subfolder of {folder}"
        ) from exc
    # The new name is on disk only after the folder was flushed.
    fsync(target.parent)


def _complete_batches(journal: BinaryIO) -> Iterator[tuple[pa.Table, list[LogSpan]]]:
    try:
        for batch, metadata in pa.ipc.open_stream(journal).iter_batches_with_custom_metadata():
            batch.validate(full=True)
            coverage = (metadata or {}).get(_COVERAGE)
            yield _checked(pa.Table.from_batches([batch])), [] if coverage is None else read_spans(coverage)
    except (pa.ArrowException, MemoryError, OSError, ValueError):
        # The end of the journal is incomplete. The next recorder reads these entries from the log again.
        return


@contextmanager
def _undamaged(path: Path) -> Iterator[Path]:
    """Convert errors in the content of a file to :class:`RecordingDamaged`.

    Other errors that occur when the file is read are not converted.
    """
    try:
        yield path
    except FileNotFoundError:
        raise
    except OSError as exc:
        # Arrow reports damage as an OSError without an error number.
        if exc.errno is not None:
            raise
        raise _damaged(path, exc) from exc
    except (pa.ArrowException, MemoryError, ValueError, TypeError, LookupError) as exc:
        raise _damaged(path, exc) from exc


def _damaged(path: Path, problem: Exception) -> RecordingDamaged:
    reason = str(problem).partition("\n")[0] or type(problem).__name__
    return RecordingDamaged(
        f"{path} is damaged ({reason}); restore it from a copy, or remove it; the audit then reports its content"
        " as missing"
    )


def _checked(table: pa.Table) -> pa.Table:
    """Return the table if it is a valid table of events.

    Raises:
        ValueError: The columns of the table differ, or contain an invalid word or time.
    """
    if "logged_at" not in table.column_names:
        # The recording was made before this column existed.
        field = STORED_SCHEMA.field("logged_at")
        nothing = pa.nulls(table.num_rows, field.type)
        table = table.add_column(STORED_SCHEMA.get_field_index("logged_at"), field, nothing)
    if not table.schema.equals(STORED_SCHEMA):
        raise ValueError("its columns are not those of events")
    for name, words in _WORDS.items():
        invalid = set(table[name].unique().to_pylist()) - words - {None}
        if invalid:
            raise ValueError(f"{invalid.pop()!r} is not a valid {name}")
    for name in _INSTANTS:
        require_instants(name, table[name])
    return table
