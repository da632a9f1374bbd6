"""The commands about the whole fleet: plans, drift and snapshots."""

from __future__ import annotations

import codecs
import csv
import errno
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mirror_sdk._protocol.defaults import DEFAULT_MAX_SNAPSHOT_BYTES
from mirror_sdk._visible import visible_line, with_formula, without_formula
from mirror_sdk.cli.arguments import connect, patterns_option
from mirror_sdk.cli.group import in_words_of_the_shell, main
from mirror_sdk.cli.output import Form, form_options, show
from mirror_sdk.cli.pseudonyms import pseudonym_options, pseudonymized, read_key
from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_table import lookup
from mirror_sdk.values import InstanceValues, PythonValue, encode, written
from mirror_sdk.wire.device_requests import MAX_EXPIRY_SECONDS

if TYPE_CHECKING:
    import pandas as pd

F = TypeVar("F", bound=Callable[..., Any])

_DRIFTS = 1
_NOT_ALL = 1
_MOST_SHOWN = 80
_COLUMNS = {"device", "path", "value"}
_SAVE_AS_UTF_8 = "a spreadsheet saves it as 'CSV UTF-8', and 'iconv -f {} -t UTF-8 FILE' converts what Windows wrote"


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--apply", "is_applied", is_flag=True, help="Send what the plan says. Without it nothing is sent.")
@click.option(
    "--undo",
    "undo_file",
    type=click.Path(path_type=Path),
    help="Write the values before into this file. A plan of that file overwrites later changes too.",
)
@click.option("--concurrency", type=click.IntRange(min=1), default=8, show_default=True, help="How many at once.")
@click.option(
    "--canary",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="How many devices that are awake to write to first; all of them must succeed.",
)
@click.option(
    "--max-failures", type=click.IntRange(min=0), default=5, show_default=True, help="After more than so many, stop."
)
@click.option(
    "--expiry-seconds",
    type=click.IntRange(1, MAX_EXPIRY_SECONDS),
    help="How long each write may wait. By default a minute, and 3 days or more for a device that sleeps.",
)
@click.option(
    "--wait-seconds",
    "timeout",
    type=click.FloatRange(min=0),
    help="How long to wait for each answer, also of devices that sleep, which are not waited for by default.",
)
@click.option(
    "--read-first",
    is_flag=True,
    help="Read what is not known, so that --undo has it. Devices that sleep are not asked.",
)
@click.option("--include-offline", is_flag=True, help="Send to devices that are not registered too.")
@form_options
def plan(file: Path, is_applied: bool, undo_file: Path | None, read_first: bool, form: Form, **limits: Any) -> None:
    """Check the writes in FILE, a CSV with the columns device, path and value, and send them with --apply.

    FILE is in UTF-8, with commas, semicolons or tabs between its columns; a number has a point, also beside semicolons.

    It ends with status 1 if something is refused, and with --apply if not all has succeeded, or not yet: a device that
    sleeps takes its write at its next contact. Ctrl-C sends no more; what became of each write is shown all the same.

    \b
      mirror plan wanted.csv
      mirror plan wanted.csv --apply --undo before.csv
    """  # noqa: D301 - click wants the character, not its escape
    if undo_file is not None and undo_file.exists():
        # It may be the way back from the time before.
        raise click.BadParameter(f"{undo_file} is there already; name a file that is not", param_hint="--undo")
    from mirror_sdk.cli import table_rows as tables

    with connect() as client:
        made = client.plan(_wanted_values(file), read_first=read_first)
        frame = made.frame
        if undo_file is not None:
            _write_values(made.values_before(), undo_file)
        ended_well = bool(frame["decision"].ne("refuse").all())
        if is_applied:
            try:
                with suppress(KeyboardInterrupt):
                    made.apply(**limits)
            finally:
                # However it ended, what was sent has to be known.
                result = made.result
                show(tables.ledger_rows(frame, result, form), tables.LEDGER_COLUMNS, form)
            ended_well = ended_well and bool(result["status"].eq("success").all())
        else:
            show(tables.plan_rows(frame, form), tables.PLAN_COLUMNS, form)
    click.echo(in_words_of_the_shell(made.summary_text()), err=True)
    if not ended_well:
        sys.exit(_NOT_ALL)


@main.command()
@patterns_option
@click.option("--tolerance", type=click.FloatRange(min=0), default=0, help="By how much numbers may differ.")
@click.option("--unconfirmed", is_flag=True, help="Also what was reported before the device took the write.")
@click.option("--acknowledged", is_flag=True, help="Also failed writes that someone acknowledged.")
@click.option("--check", is_flag=True, help="End with status 1 if anything is shown.")
@form_options
def drift(
    paths: Sequence[str], tolerance: float, unconfirmed: bool, acknowledged: bool, check: bool, form: Form
) -> None:
    """Show where desired and reported values differ, in the whole fleet.

    A value that was reported before the device took another one accuses nobody: it is unconfirmed, and left out without
    --unconfirmed. A read confirms it, or shows that the device did otherwise.

    \b
      mirror drift --path '/3308/*' --tolerance 0.5 --check
    """  # noqa: D301 - click wants the character, not its escape
    from mirror_sdk.cli import table_rows as tables
    from mirror_sdk.frames import mirror

    with connect() as client:
        state = client.fleet.snapshot(paths=list(paths) or None)
    found = mirror(state).drift(tolerance=tolerance, unconfirmed=unconfirmed, acknowledged=acknowledged)
    nothing = "no desired value differs from the reported one"
    if not unconfirmed:
        nothing += "; --unconfirmed shows those that no report has confirmed yet, too"
    if not acknowledged:
        nothing += "; --acknowledged shows failed writes that someone acknowledged, too"
    columns = tables.DRIFT_COLUMNS_OF_PROGRAMS if form else tables.DRIFT_COLUMNS
    show(tables.drift_rows(found, state, form), columns, form, nothing)
    if check and not found.empty:
        sys.exit(_DRIFTS)


def selection_options(command: F) -> F:
    """Give a command the options of which devices and resources; it gets ``paths``, ``state`` and ``endpoint_type``."""
    command = click.option("--type", "endpoint_type", help="Only devices of this endpoint type.")(command)
    states = click.Choice(["registered", "deregistered"])
    return patterns_option(click.option("--state", type=states, help="Only devices in this state.")(command))


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@selection_options
@click.option("--dataset", is_flag=True, help="FILE is a folder, for many Parquet files: a fleet larger than memory.")
@click.option("--overwrite", is_flag=True, help="With --dataset, put it into the place of another dataset.")
@click.option(
    "--max-snapshot-bytes",
    type=click.IntRange(min=1),
    default=DEFAULT_MAX_SNAPSHOT_BYTES,
    show_default=True,
    help="How many bytes it may have after decompression.",
)
@pseudonym_options
def snapshot(
    file: Path,
    paths: Sequence[str],
    state: str | None,
    endpoint_type: str | None,
    dataset: bool,
    overwrite: bool,
    max_snapshot_bytes: int,
    pseudonymize: bool,
    pseudonym_key_file: Path | None,
) -> None:
    """Write the state of the whole fleet, as of one instant, into FILE, by its ending as Parquet or CSV.

    A FILE that is there already is replaced when all of the new one is written. With --dataset FILE is a folder of
    Parquet files, which are written while the fleet arrives.

    \b
      mirror snapshot temperatures.csv --path '/3303/0/5700'
      mirror snapshot fleet --dataset
      mirror snapshot shared.parquet --pseudonymize --pseudonym-key-file ~/november.key
    """  # noqa: D301 - click wants the character, not its escape
    if overwrite and not dataset:
        raise click.BadParameter("goes with --dataset alone; a file is always replaced", param_hint="--overwrite")
    if not dataset:
        require_table(file, "; for a folder give --dataset")
    if dataset and pseudonymize:
        raise click.BadParameter("goes without --dataset; write a part of the fleet", param_hint="--pseudonymize")
    wanted, key = list(paths) or None, read_key(is_wanted=pseudonymize, file=pseudonym_key_file)
    with connect(max_snapshot_bytes=max_snapshot_bytes) as client:
        if dataset:
            written = client.fleet.dataset(
                file, paths=wanted, state=state, endpoint_type=endpoint_type, overwrite=overwrite
            )
            _tell_written(written.rows, written.device_count, file)
            return
        frame = pseudonymized(client.fleet.snapshot(paths=wanted, state=state, endpoint_type=endpoint_type), key)
    write_state(frame, file)


def require_table(file: Path, otherwise: str = "") -> None:
    """Make sure that the ending of a file says how a table is written into it."""
    if file.suffix not in {".parquet", ".csv"}:
        raise click.BadParameter(f"{file.name} ends neither in .parquet nor in .csv{otherwise}", param_hint="FILE")
    if file.is_dir():
        raise click.BadParameter(f"{file} is a folder{otherwise}", param_hint="FILE")
    if not file.absolute().parent.is_dir():
        # Before the mirror is asked for a whole fleet.
        raise click.ClickException(f"{file} cannot be written: there is no folder {file.parent}; make it first")


def write_state(frame: pd.DataFrame, file: Path) -> None:
    """Write a state table, by the ending of the file, and say so."""
    with _in_place_of(file) as unfinished:
        if file.suffix == ".csv":
            from mirror_sdk.cli.table_rows import write_csv

            write_csv(frame, unfinished)
        else:
            frame.to_parquet(unfinished)
    _tell_written(len(frame), frame.attrs["mirror"]["devices"], file)


@contextmanager
def _in_place_of(file: Path) -> Iterator[Path]:
    """Where to write what takes the place of a file once it is whole and on disk; until then that is as it was.

    A pipe or a device, such as ``/dev/null``, is written itself, and so is a file in a folder that takes no other one.
    """
    # Of a link, the file it leads to is another one from then on, and the link stays.
    target = Path(os.path.realpath(file))
    unfinished = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    try:
        if file.exists() and not (file.is_file() and _is_made(unfinished)):
            yield file
            return
        yield unfinished
        with unfinished.open("rb+") as written:
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, unfinished)
        _replace(target, unfinished)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise click.ClickException(f"{file} cannot be written: {why}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _is_made(unfinished: Path) -> bool:
    """Whether there could be made a file; nobody else reads it before it is as private as what it replaces."""
    try:
        unfinished.touch(0o600)
    except OSError:
        return False
    return True


def _replace(target: Path, whole: Path) -> None:
    try:
        whole.replace(target)
    except OSError as error:
        if error.errno not in {errno.EBUSY, errno.EPERM}:
            raise
        # It can only be written itself, as one that is mounted alone into a container.
        shutil.copyfile(whole, target)


def _tell_written(rows: int, device_count: int, file: Path) -> None:
    click.echo(f"wrote {rows} rows of {device_count} devices into {file}", err=True)


def _wanted_values(file: Path) -> pd.DataFrame:
    """The writes a file asks for; one that is no CSV in UTF-8 is wrong usage."""
    try:
        return _read_wanted(file)
    except UnicodeDecodeError as error:
        has_mark = error.object[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}
        cure = _SAVE_AS_UTF_8.format("UTF-16" if has_mark else "WINDOWS-1252")
        told = f"byte 0x{error.object[error.start]:02x} is none of it; {cure}"
        raise click.BadParameter(f"{file.name} is no CSV in UTF-8: {told}", param_hint="FILE") from error
    except csv.Error as error:
        raise click.BadParameter(f"{file.name} is no CSV in UTF-8: {error}", param_hint="FILE") from error


def _read_wanted(file: Path) -> pd.DataFrame:
    """The writes a file asks for, each value as the text it is: the plan reads it, or refuses it."""
    import pandas as pd

    with file.open(newline="", encoding="utf-8-sig") as lines:
        head = lines.readline()
        rows = csv.DictReader(chain([head], lines), delimiter=_delimiter(head))
        lacking = _COLUMNS - set(rows.fieldnames or [])
        if lacking:
            found = f"its first line is '{visible_line(head.strip())[:_MOST_SHOWN]}'" if head.strip() else "it is empty"
            told = f"{file.name} lacks the column {', '.join(sorted(lacking))}; {found}"
            raise click.BadParameter(told, param_hint="FILE")
        wanted: list[tuple[str, str, str]] = []
        line_numbers = []
        for row in rows:
            device, path, value = (row[name] for name in ("device", "path", "value"))
            if device is None or path is None or value is None:
                raise click.BadParameter(f"line {rows.line_num} of {file.name} is too short", param_hint="FILE")
            # Cells without a column: a decimal comma may have split a number, of which only the first part is in value.
            if any(row.get(None) or ()):
                told = (
                    f"line {rows.line_num} of {file.name} has more cells than the first line; write a number with a"
                    " point, like 21.5, and put a text with a comma into quotes"
                )
                raise click.BadParameter(told, param_hint="FILE")
            if not (device or path or value):
                # Spreadsheets leave such rows below the last one.
                continue
            wanted.append((with_formula(device), path, with_formula(value)))
            line_numbers.append(rows.line_num)
        index = pd.Index(line_numbers, name="line")
        return pd.DataFrame(wanted, index=index, columns=["device_id", "path", "value"], dtype=object)


def _delimiter(head: str) -> str:
    """What stands between the columns: a spreadsheet writes semicolons where numbers have a comma."""
    return next((mark for mark in ",;\t" if set(*csv.reader([head], delimiter=mark)) >= _COLUMNS), ",")


def _write_values(values: Iterable[tuple[str, str, PythonValue | InstanceValues]], file: Path) -> None:
    rows = []
    for device, path, value in values:
        try:
            rows.append(tuple(map(without_formula, (device, path, _to_be_read(value, path)))))
        except (InvalidValue, UnicodeDecodeError) as error:
            click.echo(f"{path} of {device} is left out of {file}: {error}", err=True)
    with _in_place_of(file) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(["device", "path", "value"])
        writer.writerows(rows)


def _to_be_read(value: PythonValue | InstanceValues, path: str) -> str:
    """The text that a plan reads as this value; what nothing is declared for is sent as the text it is."""
    payload, _ = encode(value, path)
    return written(value) if lookup(path) else payload.decode()
