"""The commands for access keys. A server on the same database can keep running."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import click

from mirror_server.cli import main
from mirror_server.clock import wall_time
from mirror_server.config import database_option, read_time
from mirror_server.core.timestamps import Instant, to_datetime
from mirror_server.hooks import open_database
from mirror_server.service import keys as access_keys
from mirror_server.service.keys import DEFAULT_SCOPES, Scope
from mirror_server.store import keys as stored_keys
from mirror_server.store import maintenance
from mirror_server.store.keys import StoredKey
from mirror_server.store.session import LOG, Session


@main.group()
def keys() -> None:
    """Create, list, renew and revoke access keys. Each application has its own key."""


def _check_name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise click.BadParameter("a name must not be blank, and must contain printable characters only")
    return name


@keys.command("create")
@click.argument("name", callback=_check_name)
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="What the key may do. Can be repeated. By default: read, write and subscribe. 'mirror-server help keys'"
    " describes the scopes.",
)
@database_option
def create_key(name: str, scopes: Sequence[str], database_url: str) -> None:
    """Create an access key with the name NAME and print it.

    Save the key: it is printed only once, because the database contains only its hash.

    \b
      mirror-server keys create dashboard --scope read --scope subscribe
    """  # noqa: D301 - click wants the character, not its escape
    with closing(open_database(database_url)) as database:
        click.echo(access_keys.create(database, name, [Scope(word) for word in scopes] or DEFAULT_SCOPES, wall_time()))


@keys.command("list")
@database_option
def list_keys(database_url: str) -> None:
    """List the id, name, scopes, creation time and state of all keys. The keys themselves are not stored."""
    with closing(open_database(database_url, must_exist=True)) as database, database.read() as session:
        for key in stored_keys.list_all(session):
            created = _format_time(key.created_at)
            click.echo("\t".join([key.key_id, key.name, key.scopes.replace(" ", ","), created, _state(session, key)]))


def _state(session: Session, key: StoredKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_format_time(key.revoked_at)}"
    former = stored_keys.former_secrets(session, key.key_id, wall_time())
    return f"in use; the previous key is valid until {_format_time(former[0].ends_at)}" if former else "in use"


def _format_time(instant: Instant) -> str:
    return f"{to_datetime(instant):%Y-%m-%dT%H:%MZ}"


@keys.command("renew")
@click.argument("name")
@click.option(
    "--overlap",
    "overlap_seconds",
    metavar="TIME",
    default="24h",
    show_default=True,
    type=read_time,
    help="How long the old key remains valid: 30m, 24h or 7d. Use 0 if the old key has leaked.",
)
@database_option
def renew_key(name: str, overlap_seconds: int, database_url: str) -> None:
    """Replace the key NAME and print the new one. NAME can also be its id.

    The application stays the same, with its notifications, rules, subscriptions and webhook. Save the new key: it is
    printed only once. The server can keep running. Keys that earlier renewals replaced expire when they were due to
    expire, or with the old key if that is sooner. A request that is still waiting when its key expires gets 401.

    \b
      mirror-server keys renew dashboard --overlap 7d
    """  # noqa: D301 - click wants the character, not its escape
    with closing(open_database(database_url, must_exist=True)) as database:
        try:
            key = access_keys.renew(database, name, overlap_seconds, wall_time())
        except LookupError as error:
            raise click.ClickException(error.args[0]) from None
    click.echo(key)


@keys.command("revoke")
@click.argument("key_id")
@database_option
def revoke_key(key_id: str, database_url: str) -> None:
    """Revoke the key with the id KEY_ID, at once and permanently. 'keys list' shows the ids.

    The application of the key loses its webhook, rules, subscriptions and notifications. The server can keep running.
    """

    def work(session: Session) -> bool:
        is_revoked = stored_keys.revoke(session, key_id, wall_time())
        if is_revoked:
            maintenance.end_application(session, key_id, database.storages)
            # Other processes then check their open streams immediately, and end the streams of this key.
            session.publish(LOG, key_id)
        return is_revoked

    with closing(open_database(database_url, must_exist=True)) as database:
        if not database.write(work):
            raise click.ClickException(
                f"no active key has the id {key_id!r}; list the keys with 'mirror-server keys list'"
            )
    click.echo(f"revoked {key_id}")
