"""The commands for the entire fleet: plans, drift and snapshots."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from mirror_sdk.cli.arguments import connect, patterns_option, selection_options
from mirror_sdk.cli.group import in_words_of_the_shell, main
from mirror_sdk.cli.output import OutputFormat, form_options, show
from mirror_sdk.cli.output_files import (
    check_fleet_file,
    dataset_options,
    max_snapshot_bytes_option,
    report_written,
    write_state,
)
from mirror_sdk.cli.plan_files import read_planned, write_planned
from mirror_sdk.cli.pseudonym_options import pseudonym_options, pseudonymized, read_key
from mirror_sdk.wire.device_requests import MAX_EXPIRY_SECONDS

_DRIFT_FOUND = 1
_NOT_ALL = 1


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--apply", "is_applied", is_flag=True, help="Send the writes. Without this option nothing is sent.")
@click.option(
    "--undo",
    "undo_file",
    type=click.Path(path_type=Path),
    help="Save the previous values in this file. To undo the writes, run 'mirror plan' with this file; that also"
    " overwrites later changes.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="How many writes are in flight at the same time.",
)
@click.option(
    "--canary",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Write to this many awake devices first. The plan stops if one of these writes fails. 0 disables this.",
)
@click.option(
    "--max-failures",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Stop after more than this many failures.",
)
@click.option(
    "--expiry-seconds",
    type=click.IntRange(1, MAX_EXPIRY_SECONDS),
    help="Seconds after which a write without a response expires. By default a minute, and 3 days or more for a"
    " device that sleeps.",
)
@click.option(
    "--wait-seconds",
    "timeout",
    type=click.FloatRange(min=0),
    help="Seconds to wait for each response, including those of sleeping devices. By default the plan does not wait"
    " for sleeping devices.",
)
@click.option(
    "--read-first",
    is_flag=True,
    help="First read the values that the mirror does not have, so that --undo saves them. Devices that sleep are not"
    " read.",
)
@click.option("--include-offline", is_flag=True, help="Also write to devices that are not registered.")
@form_options
def plan(
    file: Path, is_applied: bool, undo_file: Path | None, read_first: bool, form: OutputFormat, **limits: Any
) -> None:
    """FILE is a CSV file with the columns device, path and value.

    It is in UTF-8, and its columns are separated by commas, semicolons or tabs. Write numbers with a decimal point,
    even if the columns are separated by semicolons.

    The exit status is 1 if a write is rejected. With --apply, it is also 1 if a write has not succeeded yet, for
    example because its device sleeps and gets the write at its next contact. Ctrl-C stops sending. The command always
    lists the result of each write.

    \b
      mirror plan wanted.csv
      mirror plan wanted.csv --apply --undo before.csv
    """  # noqa: D301 - click wants the character, not its escape
    if undo_file is not None and undo_file.exists():
        # The file may contain the previous values of an earlier plan.
        raise click.BadParameter(f"{undo_file} exists already; pass the name of a new file", param_hint="--undo")
    from mirror_sdk.cli import table_rows as tables

    with connect() as client:
        made = client.plan(read_planned(file), read_first=read_first)
        frame = made.frame
        if undo_file is not None:
            write_planned(made.values_before(), undo_file)
        succeeded = bool(frame["decision"].ne("refuse").all())
        if is_applied:
            try:
                with suppress(KeyboardInterrupt):
                    made.apply(**limits)
            finally:
                # However the plan ends, the user has to know what was sent.
                result = made.result
                show(tables.table_rows(result, tables.RESULT_COLUMNS, form, frame), tables.RESULT_COLUMNS, form)
            succeeded = succeeded and bool(result["status"].eq("success").all())
        else:
            show(tables.table_rows(frame, tables.PLAN_COLUMNS, form), tables.PLAN_COLUMNS, form)
    click.echo(in_words_of_the_shell(made.summary_text()), err=True)
    if not succeeded:
        sys.exit(_NOT_ALL)


@main.command()
@patterns_option
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0,
    help="Ignore numeric differences up to this size. By default 0.",
)
@click.option(
    "--unconfirmed", is_flag=True, help="Also show values that were reported before the device accepted the write."
)
@click.option("--acknowledged", is_flag=True, help="Also show failed writes that someone acknowledged.")
@click.option("--check", is_flag=True, help="Exit with status 1 if there is a difference to show.")
@form_options
def drift(
    paths: Sequence[str], tolerance: float, unconfirmed: bool, acknowledged: bool, check: bool, form: OutputFormat
) -> None:
    """Show the resources of the fleet whose desired and reported values differ.

    After a device has accepted a write, the mirror keeps the old reported value until the device reports again. Such a
    difference is shown only with --unconfirmed. To find out which value the device has, read the resource.

    \b
      mirror drift --path '/3308/*' --tolerance 0.5 --check
    """  # noqa: D301 - click wants the character, not its escape
    from mirror_sdk.cli import table_rows as tables
    from mirror_sdk.frames import mirror

    with connect() as client:
        state = client.fleet.snapshot(paths=list(paths) or None)
    found = mirror(state).drift(tolerance=tolerance, unconfirmed=unconfirmed, acknowledged=acknowledged)
    if_empty = "no desired value differs from the reported one"
    if not unconfirmed:
        if_empty += "; --unconfirmed also shows those that no report has confirmed yet"
    if not acknowledged:
        if_empty += "; --acknowledged also shows failed writes that someone acknowledged"
    columns = tables.DRIFT_COLUMNS_FOR_PROGRAMS if form else tables.DRIFT_COLUMNS
    show(tables.table_rows(found, columns, form, state), columns, form, if_empty)
    if check and not found.empty:
        sys.exit(_DRIFT_FOUND)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@selection_options
@dataset_options
@max_snapshot_bytes_option
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
    """Write the state of the whole fleet at one instant into FILE.

    The extension of FILE selects the format: .parquet or .csv. An existing FILE is replaced only after the new one is
    complete. With --dataset, FILE is a folder of Parquet files, which are written while the fleet is received.

    \b
      mirror snapshot temperatures.csv --path '/3303/0/5700'
      mirror snapshot fleet --dataset
      mirror snapshot shared.parquet --pseudonymize --pseudonym-key-file ~/november.key
    """  # noqa: D301 - click wants the character, not its escape
    check_fleet_file(file, dataset=dataset, overwrite=overwrite, pseudonymize=pseudonymize)
    key = read_key(is_requested=pseudonymize, file=pseudonym_key_file)
    selection: Any = {"paths": list(paths) or None, "state": state, "endpoint_type": endpoint_type}
    with connect(max_snapshot_bytes=max_snapshot_bytes) as client:
        if dataset:
            written = client.fleet.dataset(file, **selection, overwrite=overwrite)
            report_written(written.rows, written.device_count, file)
        else:
            write_state(pseudonymized(client.fleet.snapshot(**selection), key), file)
