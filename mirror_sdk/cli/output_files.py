"""The files that commands write."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirror_sdk._protocol.defaults import DEFAULT_MAX_SNAPSHOT_BYTES

if TYPE_CHECKING:
    import pandas as pd

max_snapshot_bytes_option = click.option(
    "--max-snapshot-bytes",
    type=click.IntRange(min=1),
    default=DEFAULT_MAX_SNAPSHOT_BYTES,
    show_default=True,
    help="Maximum size of the snapshot after decompression, in bytes.",
)


def check_table_file(file: Path, cure: str = "") -> None:
    """Check the extension and the folder of a file for a table, before the mirror sends the data of an entire fleet."""
    if file.suffix not in {".parquet", ".csv"}:
        raise click.BadParameter(f"{file.name} ends neither in .parquet nor in .csv{cure}", param_hint="FILE")
    if file.is_dir():
        raise click.BadParameter(f"{file} is a folder{cure}", param_hint="FILE")
    if not file.absolute().parent.is_dir():
        raise click.ClickException(f"{file} cannot be written: there is no folder {file.parent}; create it first")


def dataset_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a command that can write a dataset instead of a file."""
    command = click.option("--overwrite", is_flag=True, help="With --dataset, replace another dataset.")(command)
    text = "Write a folder of Parquet files, for a fleet that does not fit into memory."
    return click.option("--dataset", is_flag=True, help=text)(command)


def check_fleet_file(file: Path, *, dataset: bool, overwrite: bool, pseudonymize: bool) -> None:
    """Check the file or folder for the state of a fleet, and the options that depend on it."""
    if overwrite and not dataset:
        raise click.BadParameter("only applies to --dataset; a file is always replaced", param_hint="--overwrite")
    if not dataset:
        check_table_file(file, "; for a folder pass --dataset")
    if dataset and pseudonymize:
        raise click.BadParameter(
            "cannot be combined with --dataset; write a part of the fleet into a file", param_hint="--pseudonymize"
        )


def write_state(frame: pd.DataFrame, file: Path) -> None:
    """Write a state table to a file in the format of the file extension, and print its size."""
    with replacing(file) as unfinished:
        if file.suffix == ".csv":
            from mirror_sdk.frames.csv_file import write_csv

            write_csv(frame, unfinished)
        else:
            frame.to_parquet(unfinished)
    report_written(len(frame), frame.attrs["mirror"]["devices"], file)


def report_written(rows: int, device_count: int, file: Path) -> None:
    """Print the size of a table that was written."""
    click.echo(f"wrote {rows} rows of {device_count} devices into {file}", err=True)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces ``file`` when it is complete and on disk.

    Until then, ``file`` is unchanged. A pipe or a device, such as ``/dev/stdout``, is written directly.
    """
    # A symbolic link remains, and its target is replaced.
    target = Path(os.path.realpath(file))
    unfinished = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    try:
        if file.exists() and not file.is_file():
            yield file
            return
        if target.exists():
            # The permissions are set first, so that no one can read the new file who could not read the file that it
            # replaces.
            unfinished.touch(0o600)
        yield unfinished
        with unfinished.open("rb+") as written:
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, unfinished)
        try:
            unfinished.replace(target)
        except OSError:
            # A file that is mounted individually into a container can only be overwritten.
            shutil.copyfile(unfinished, target)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise click.ClickException(f"{file} cannot be written: {reason}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
