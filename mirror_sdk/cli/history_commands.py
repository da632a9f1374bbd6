"""The commands for the past: the history of a device, and the state of the fleet at an earlier time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from mirror_sdk.cli.arguments import check_pattern, connect, device_argument, limit_option, selection_options
from mirror_sdk.cli.group import main
from mirror_sdk.cli.output import OutputFormat, form_options, show
from mirror_sdk.cli.output_files import (
    check_fleet_file,
    dataset_options,
    max_snapshot_bytes_option,
    report_written,
    write_state,
)
from mirror_sdk.cli.pseudonym_options import pseudonym_options, pseudonymized, read_key
from mirror_sdk.errors import BeforeHistory
from mirror_sdk.wire.model import write_timestamp

_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _span(text: str) -> timedelta:
    found = _SPAN.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a time span; write one like 90s, 15m, 2h or 7d")
    return timedelta(**{_UNITS[found[2]]: float(found[1])})


def _instant(text: str) -> datetime | timedelta:
    """Parse a time with its time zone, or a duration that the client subtracts from the current time."""
    if _SPAN.fullmatch(text):
        return _span(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; write one like 2026-01-31T08:00Z, or how long ago it was, like 2h"
        ) from None
    if instant.tzinfo is None:
        raise click.BadParameter(
            f"{text!r} has no time zone; write {instant.isoformat()}Z, or with an offset such as +01:00"
        )
    return instant


@main.command()
@device_argument
@click.argument("path", nargs=-1, type=check_pattern)
@click.option(
    "--begin", type=_instant, metavar="INSTANT", help="Only rows from this instant on, such as 2026-01-31T08:00Z."
)
@click.option("--end", type=_instant, metavar="INSTANT", help="Only rows before this instant.")
@click.option(
    "--since",
    type=_span,
    metavar="SPAN",
    help="Only rows from the last SPAN, such as 90s, 15m, 2h or 7d, by the mirror's clock.",
)
@limit_option(help="Show at most this many rows, the first ones.")
@form_options
def history(
    device: str,
    path: Sequence[str],
    begin: datetime | timedelta | None,
    end: datetime | timedelta | None,
    since: timedelta | None,
    limit: int | None,
    form: OutputFormat,
) -> None:
    """Show the history of DEVICE: reported values, completed writes, registrations, and gaps.

    A PATH may be a pattern. Rows without a path, such as registrations, are always shown. The time of a value comes
    from the device's clock, if the device sent a time. The mirror must be configured to keep a history.

    \b
      mirror history light-01 --since 2h
      mirror history station-01 '/3303/*' --begin 2026-01-31T08:00Z --csv
    """  # noqa: D301 - click wants the character, not its escape
    if begin is not None and since is not None:
        raise click.BadParameter("cannot be combined with --begin; pass one of them", param_hint="--since")
    from mirror_sdk.cli.table_rows import HISTORY_COLUMNS, table_rows

    with connect() as client:
        if since is not None:
            try:
                begin = client.get_device(device).created_at - since
            except OverflowError:
                raise click.BadParameter(
                    "that is before the year 1; pass a shorter time", param_hint="--since"
                ) from None
        query = partial(client.history, [device], list(path) or None, end=end)
        try:
            found = query(begin=begin, limit=limit)
        except BeforeHistory as error:
            oldest_at = error.oldest_at
            if since is None or oldest_at is None or (isinstance(end, datetime) and end < oldest_at):
                raise
            # If only a part of the requested period is stored, the query gets that part.
            click.echo(f"the history begins at {write_timestamp(oldest_at)}, so it is shown from then on", err=True)
            # There is no begin, because devices may have reported values with a time before the start of the history.
            found = query()
            found = found[found["changed_at"] >= begin].head(limit or len(found))
    if_empty = f"nothing happened to {device} in that time; 'mirror get {device}' shows its current values"
    show(table_rows(found, HISTORY_COLUMNS, form), HISTORY_COLUMNS, form, if_empty)


@main.command()
@click.argument("instant", type=_instant)
@click.argument("file", type=click.Path(path_type=Path))
@selection_options
@dataset_options
@pseudonym_options
@max_snapshot_bytes_option
def as_of(
    instant: datetime | timedelta,
    file: Path,
    paths: Sequence[str],
    state: str | None,
    endpoint_type: str | None,
    dataset: bool,
    overwrite: bool,
    pseudonymize: bool,
    pseudonym_key_file: Path | None,
    max_snapshot_bytes: int,
) -> None:
    """Write the state of the whole fleet at INSTANT into FILE.

    The extension of FILE selects the format: .parquet or .csv. With --dataset, FILE is a folder of Parquet files, which
    are written while the fleet is received. The mirror must be configured to keep a history. INSTANT is a time, or a
    duration before the current time of the mirror's clock.

    \b
      mirror as-of 2h before.parquet
      mirror as-of 2026-01-31T08:00Z monday.parquet --path '/3303/*'
      mirror as-of 2h fleet-before --dataset
    """  # noqa: D301 - click wants the character, not its escape
    check_fleet_file(file, dataset=dataset, overwrite=overwrite, pseudonymize=pseudonymize)
    key = read_key(is_requested=pseudonymize, file=pseudonym_key_file)
    selection: Any = {"paths": list(paths) or None, "state": state, "endpoint_type": endpoint_type}
    with connect(max_snapshot_bytes=max_snapshot_bytes) as client:
        if dataset:
            written = client.fleet.dataset(file, **selection, as_of=instant, overwrite=overwrite)
            report_written(written.rows, written.device_count, file)
        else:
            write_state(pseudonymized(client.as_of(instant, **selection), key), file)
