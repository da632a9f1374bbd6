"""The command for SQL queries, which prints their results or opens a prompt."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from mirror_sdk._client import MirrorClient
from mirror_sdk._fork import import_locked
from mirror_sdk._protocol.defaults import DEFAULT_MAX_ROWS
from mirror_sdk.cli.arguments import connect
from mirror_sdk.cli.group import main
from mirror_sdk.cli.output import OutputFormat, form_options, show
from mirror_sdk.cli.output_files import max_snapshot_bytes_option, replacing


@main.command()
@click.argument("query", required=False)
@click.option("--explain", is_flag=True, help="Show what the query fetches from the mirror, instead of its result.")
@click.option(
    "--max-rows",
    type=click.IntRange(min=0),
    default=DEFAULT_MAX_ROWS,
    show_default=True,
    help="Fail if the query fetches more rows from the mirror.",
)
@click.option(
    "--parquet",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the result into this Parquet file instead of printing it. An existing FILE is replaced only after the"
    " new one is complete.",
)
@form_options
@max_snapshot_bytes_option
def sql(
    query: str | None,
    explain: bool,
    max_rows: int,
    parquet: Path | None,
    form: OutputFormat,
    max_snapshot_bytes: int,
) -> None:
    """Print the result of a SQL QUERY on the tables of the mirror.

    Without QUERY, the command opens a prompt, in which Tab completes names. If the input is not a terminal, or
    QUERY is "-", the query is read from the input. 'mirror help sql' describes the tables.

    \b
      mirror sql "select endpoint_name, avg(value_num) from history
                  where path = '/3303/0/5700' and changed_at > now() - interval 1 day group by all"
      mirror sql "from state where path like '/3303/%'" --parquet state.parquet
    """  # noqa: D301 - click wants the character, not its escape
    if parquet is not None and form is not None:
        raise click.UsageError(f"--parquet and --{form} cannot be combined; remove one of them")
    # The error for a missing package comes before any request.
    import_locked("mirror_sdk.sql.query")
    if query == "-" or (query is None and not sys.stdin.isatty()):
        query = sys.stdin.read()
    with connect(max_snapshot_bytes=max_snapshot_bytes) as client:
        run = partial(_run, client, explain=explain, max_rows=max_rows, parquet=parquet, form=form)
        if query is not None:
            run(query)
            return
        from mirror_sdk.cli.sql_prompt import prompt

        prompt(client, run)


def _run(
    client: MirrorClient, query: str, *, explain: bool, max_rows: int, parquet: Path | None, form: OutputFormat
) -> None:
    table = client.sql(query, explain=explain, max_rows=max_rows, as_="arrow")
    if parquet is None:
        show(table.to_pylist(maps_as_pydicts="strict"), table.column_names, form, "the result has no rows")
        return
    import pyarrow.parquet as pq

    with replacing(parquet) as unfinished:
        pq.write_table(table, unfinished)
    click.echo(f"wrote {table.num_rows} rows into {parquet}", err=True)
