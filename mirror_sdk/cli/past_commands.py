"""The commands about the past: what happened, and the fleet as of an instant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirror_sdk._protocol.defaults import DEFAULT_MAX_SNAPSHOT_BYTES
from mirror_sdk.cli.arguments import connect, device_argument, pattern_type
from mirror_sdk.cli.fleet_commands import require_table, selection_options, write_state
from mirror_sdk.cli.group import main
from mirror_sdk.cli.output import Form, form_options, show
from mirror_sdk.cli.pseudonyms import pseudonym_options, pseudonymized, read_key
from mirror_sdk.errors import BeforeHistory
from mirror_sdk.wire.model import write_timestamp

if TYPE_CHECKING:
    _InstantType = click.ParamType[datetime | timedelta]
    _SpanType = click.ParamType[timedelta]
else:
    # Older versions of click have no type parameter here.
    _InstantType = _SpanType = click.ParamType

_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class _Instant(_InstantType):
    """An instant with its time zone, or how long ago it was, which the client counts."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime | timedelta:
        """The instant; one without a zone is wrong usage."""
        if isinstance(value, datetime | timedelta):
            return value
        if found := _SPAN.fullmatch(value):
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time; write one like 2026-01-31T08:00Z, or how long ago it was, like 2h", param, ctx
            )
        if instant.tzinfo is None:
            told = f"{instant.isoformat()}Z"
            self.fail(f"{value!r} has no time zone; write {told}, or with an offset such as +01:00", param, ctx)
        return instant


class _Span(_SpanType):
    """A span of time up to now."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The span."""
        if isinstance(value, timedelta):
            return value
        found = _SPAN.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no span of time; write one like 90s, 15m, 2h or 7d", param, ctx)
        return timedelta(**{_UNITS[found[2]]: float(found[1])})


@main.command()
@device_argument
@click.argument("path", nargs=-1, type=pattern_type)
@click.option("--begin", type=_Instant(), help="From this instant on, such as 2026-01-31T08:00Z.")
@click.option("--end", type=_Instant(), help="Up to before this instant.")
@click.option("--since", type=_Span(), help="From so long ago on, such as 90s, 15m, 2h or 7d, by the mirror's clock.")
@click.option("--limit", type=click.IntRange(min=1), help="Only so many rows, the first ones.")
@form_options
def history(
    device: str,
    path: Sequence[str],
    begin: datetime | timedelta | None,
    end: datetime | timedelta | None,
    since: timedelta | None,
    limit: int | None,
    form: Form,
) -> None:
    """Show what happened to DEVICE: what it told, ends of writes, registrations, and gaps.

    A PATH may be a pattern; rows without a path, such as registrations, are there whatever the PATH. Times are those of
    the device. It takes a mirror that keeps a history.

    \b
      mirror history light-01 --since 2h
      mirror history station-01 '/3303/*' --begin 2026-01-31T08:00Z --csv
    """  # noqa: D301 - click wants the character, not its escape
    if begin is not None and since is not None:
        raise click.BadParameter("--begin says from when on too; give one of them", param_hint="--since")
    from mirror_sdk.cli.table_rows import HISTORY_COLUMNS, history_rows

    with connect() as client:
        if since is not None:
            try:
                begin = client.get_device(device).created_at - since
            except OverflowError:
                raise click.BadParameter("that is longer ago than there are years", param_hint="--since") from None
        ask = partial(client.history, [device], list(path) or None, end=end)
        try:
            found = ask(begin=begin, limit=limit)
        except BeforeHistory as error:
            oldest_at = error.oldest_at
            if since is None or oldest_at is None or (isinstance(end, datetime) and end < oldest_at):
                raise
            # Who asks for the last week wants what there is of it.
            click.echo(f"the history begins at {write_timestamp(oldest_at)}; this is from then on", err=True)
            # Devices may have dated values before the history begins, so it is not asked for from its beginning on.
            found = ask()
            found = found[found["changed_at"] >= begin].head(limit or len(found))
    nothing = f"nothing happened to {device} in that time; 'mirror get {device}' shows what it has"
    show(history_rows(found, form), HISTORY_COLUMNS, form, nothing)


@main.command()
@click.argument("instant", type=_Instant())
@click.argument("file", type=click.Path(path_type=Path))
@selection_options
@pseudonym_options
@click.option(
    "--max-snapshot-bytes",
    type=click.IntRange(min=1),
    default=DEFAULT_MAX_SNAPSHOT_BYTES,
    show_default=True,
    help="How many bytes it may have after decompression.",
)
def as_of(
    instant: datetime | timedelta,
    file: Path,
    paths: Sequence[str],
    state: str | None,
    endpoint_type: str | None,
    pseudonymize: bool,
    pseudonym_key_file: Path | None,
    max_snapshot_bytes: int,
) -> None:
    """Write the state of the whole fleet, as it was at INSTANT, into FILE, by its ending as Parquet or CSV.

    It takes a mirror that keeps a history. How long ago is counted by the mirror's clock.

    \b
      mirror as-of 2h before.parquet
      mirror as-of 2026-01-31T08:00Z monday.parquet --path '/3303/*'
    """  # noqa: D301 - click wants the character, not its escape
    require_table(file)
    key = read_key(is_wanted=pseudonymize, file=pseudonym_key_file)
    with connect(max_snapshot_bytes=max_snapshot_bytes) as client:
        found = client.as_of(instant, paths=list(paths) or None, state=state, endpoint_type=endpoint_type)
        frame = pseudonymized(found, key)
    write_state(frame, file)
