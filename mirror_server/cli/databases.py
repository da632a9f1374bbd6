"""The commands for a complete database: ``erase``, ``check``, ``backup``, ``restore`` and ``mark-restored``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import click

from mirror_server.cli import main
from mirror_server.config import Settings, database_option, options_of
from mirror_server.hooks import Erasure, load_for_commands, open_database, read_settings, setting_classes
from mirror_server.store import maintenance, schema
from mirror_server.store.backend import DatabaseError, redacted
from mirror_server.store.database import Database, location_of
from mirror_server.store.session import Session
from mirror_server.store.sqlite.files import copy

_MOST_NAMED = 10


@main.command()
@click.argument("device_ids", metavar="DEVICE_ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Confirm the action without prompting.")
@database_option
@options_of("erase", *setting_classes())
def erase(device_ids: tuple[str, ...], yes: bool, database_url: str, **settings: Any) -> None:
    """Erase all data of devices, to protect the privacy of their users, and print a receipt for each.

    This includes notifications about the devices; readers of the logs get a gap. It also includes the presubscription
    rules that name a device, and its pre-shared key, without which it cannot register again. The command also erases
    data that extensions store outside the database. The server can keep running.

    The exit status is 1 if nothing is stored for one of the ids, or if the data could not be deleted completely.
    """
    ids = list(dict.fromkeys(device_ids))
    if not yes:
        # Not to the standard output, which may be a file for the receipts.
        devices = f"the device {ids[0]}" if len(ids) == 1 else f"{len(ids):,} devices"
        click.confirm(f"This permanently deletes all stored data of {devices}. Continue?", abort=True, err=True)
    erased: dict[str, dict[str, int]] = {}
    is_purged = False
    try:
        alone = location_of(database_url).alone()
        with alone as is_alone, closing(open_database(database_url, must_exist=True)) as database:
            read = read_settings(database_url=database_url, **settings)
            erasures: list[Erasure] = []
            for device_id in ids:
                erased[device_id], more = _erase(database, device_id, read)
                erasures += more
            # After all transactions, because an extension may delete the data of all devices together.
            finished = (each.finish(is_alone) for each in erasures)
            # The next one would wait for the same reason.
            failure = next((each for each in finished if each is not None), None)
            is_purged = database.backend.purge() and failure is None
    finally:
        # Also if the command is interrupted, because these devices are erased.
        unknown = [device_id for device_id, rows in erased.items() if is_purged and not any(rows.values())]
        for device_id in (each for each in erased if each not in unknown):
            click.echo(json.dumps(_receipt(device_id, erased[device_id], is_purged=is_purged)))
    if failure is not None:
        raise click.ClickException(failure)
    if not is_purged:
        raise click.ClickException(
            "the database files still contain the erased data, because another process is reading them; run this"
            " again until it says that nothing is stored"
        )
    if unknown:
        others = f" or {len(unknown) - _MOST_NAMED:,} others" if len(unknown) > _MOST_NAMED else ""
        names = " or ".join(map(repr, unknown[:_MOST_NAMED]))
        raise click.ClickException(
            f"nothing is stored for a device with the id {names}{others}; pass ids, not endpoint names"
        )


def _receipt(device_id: str, rows: Mapping[str, int], *, is_purged: bool) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return {"device_id": device_id, "erased_at": at, "rows": rows, "purged": is_purged}


def _erase(database: Database, device_id: str, settings: Settings) -> tuple[dict[str, int], list[Erasure]]:
    """Erase a device from the database. Return the number of rows by kind and the erasures of extensions.

    The numbers include the data outside the database. The caller finishes the erasures, which erase that data.
    """
    hook = load_for_commands().hook
    while True:
        erasures: list[Erasure] = hook.erasure(database=database, device_id=device_id, settings=settings)

        def work(session: Session, erasures: list[Erasure] = erasures) -> dict[str, int] | None:
            # If the data has changed since an erasure was planned, the erasure is planned again.
            if not all(each.is_current(session) for each in erasures):
                return None
            return maintenance.erase_device(session, device_id, database.storages)

        rows = database.write(work)
        if rows is not None:
            for each in erasures:
                rows |= {kind: rows.get(kind, 0) + count for kind, count in each.rows.items()}
            return rows, erasures


@main.command()
@database_option
@options_of("check", *setting_classes())
def check(database_url: str, **settings: Any) -> None:
    """Check the database for damage, and count the problems of each kind.

    If there are any, the exit status is 1. In that case, restore a backup. The command also checks data that extensions
    store outside the database.
    """
    # Checked before the database is opened, because opening it fails if the file is damaged.
    location = location_of(database_url)
    violations = location.damage()
    if not violations:
        with closing(open_database(database_url, must_exist=True)) as database:
            hook, read = load_for_commands().hook, read_settings(database_url=database_url, **settings)
            violations = database.violations() or list(chain(*hook.check(database=database, settings=read)))
            sizes = hook.size(database=database)
        for size in sizes:
            click.echo(size)
    for violation in violations:
        click.echo(str(violation))
    if count := sum(violation.count for violation in violations):
        problems = "problem" if count == 1 else "problems"
        by = " with 'mirror-server restore FILE'" if location.is_file else ""
        raise click.ClickException(
            f"found {count:,} {problems}; restore a backup{by}, and keep this database to analyze the damage, but do"
            " not publish it, because it contains personal data and keys of devices"
        )
    click.echo("no problems found")


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@database_option
def backup(file: Path, database_url: str) -> None:
    """Copy the SQLite database into the new FILE. The server can keep running.

    A database of an older version is copied unchanged, so that you can undo an upgrade. Back up PostgreSQL with
    pg_dump.

    \b
      mirror-server backup /backup/mirror-monday.db --database sqlite:///mirror.db
    """  # noqa: D301 - click wants the character, not its escape
    with closing(open_database(database_url, must_exist=True, keep_schema=True)) as database:
        database.backend.backup(file)
    click.echo(f"wrote {file}")


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@database_option
def restore(file: Path, database_url: str) -> None:
    """Create the SQLite database from the backup FILE. It never overwrites an existing database.

    Stop the server first, and move the existing database file away. Clients get a gap for the notifications that were
    lost, and reload tables completely. Requests that were pending in the backup are sent to their devices again.

    \b
      mirror-server restore /backup/mirror-monday.db --database sqlite:///mirror.db
    """  # noqa: D301 - click wants the character, not its escape
    path = location_of(database_url).file()
    if path.exists():
        companions = " and ".join(path.name + end for end in ("-wal", "-shm"))
        raise DatabaseError(
            f"{path} already exists and is not overwritten; stop its server and move the file away, together with"
            f" {companions} if they exist, or choose another file with --database"
        )
    # Only the copy is upgraded. The backup itself keeps its version.
    copy(file, path, [schema.CORE, *(storage.branch for storage in load_for_commands().storages)])
    with closing(open_database(database_url)) as restored:
        restored.write(maintenance.skip_lost_numbers)
    click.echo(f"restored {database_url}")


@main.command()
@database_option
def mark_restored(database_url: str) -> None:
    """Mark a database that you restored without 'mirror-server restore'. Run this before a server uses it.

    For example, you used pg_restore, a copied file, or a snapshot of the disk or of a virtual machine. Without this
    command, the server uses the numbers of lost changes again. Clients that have read the lost changes then skip the
    new ones. With it, readers of notifications get a gap, and clients reload their tables. Running it twice is
    harmless.
    """
    alone = location_of(database_url).alone()
    with alone as is_alone, closing(open_database(database_url, must_exist=True)) as database:
        if not is_alone and database.backend.is_served():
            raise click.ClickException("a server is running on this database; stop it first, then run this again")
        database.write(maintenance.skip_lost_numbers)
    url = redacted(database_url)
    click.echo(f"marked {url} as restored: new entries get numbers that no client has seen")
