"""The commands of ``mirror-server``. What serves is loaded by those that do."""

from __future__ import annotations

import json
import logging
import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from mirror_sdk._visible import visible
from mirror_server import demo_key
from mirror_server import keys as access_keys
from mirror_server.callout import LOOPBACK
from mirror_server.cli import main
from mirror_server.clock import wall_time
from mirror_server.config import LogFormat, Settings
from mirror_server.core.instants import Instant, to_datetime
from mirror_server.demo_key import DemoKey
from mirror_server.keys import DEFAULT_SCOPES, Scope
from mirror_server.log import LOG
from mirror_server.logging_format import configure
from mirror_server.options import clock_option, database_option, seed_option, settings_options
from mirror_server.store import keys as stored_keys
from mirror_server.store import maintenance, revisions
from mirror_server.store.database import Database
from mirror_server.store.database import check as check_database
from mirror_server.store.keys import StoredKey
from mirror_server.store.session import Session
from mirror_server.store.sqlite import copy
from mirror_server.store.url import is_postgresql, path_of, shown

if TYPE_CHECKING:
    from mirror_server.services import Services

_NOT_KEPT = "The key is not kept beside a PostgreSQL database: the next start ends it, unless --key gives one."
_TIME = re.compile(r"(0|[1-9][0-9]{0,4}(?=[smhd]))([smhd]?)")
_UNITS_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


host_option = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="MIRROR_HOST",
    show_envvar=True,
    help="Address to listen on.",
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    envvar="MIRROR_PORT",
    show_envvar=True,
    help="Port to listen on; 0 takes a free one.",
)
log_format_option = click.option(
    "--log-format",
    type=click.Choice(get_args(LogFormat)),
    default="console",
    show_default=True,
    envvar="MIRROR_LOG_FORMAT",
    show_envvar=True,
    help="How the log on stderr looks: lines for people, or a JSON object a line for programs.",
)
access_log_option = click.option(
    "--access-log/--no-access-log",
    default=True,
    show_default=True,
    envvar="MIRROR_ACCESS_LOG",
    show_envvar=True,
    help="Write a line for each request; failures are written in either case.",
)


def _check_key(_context: click.Context, _parameter: click.Parameter, key: str | None) -> str | None:
    if key is not None:
        try:
            access_keys.parts_of(key)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return key


def _read_time(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no time; write it like 24h, 30m, 7d or 0")
    return int(found[1]) * _UNITS_SECONDS[found[2]]


@main.command()
@host_option
@port_option
@settings_options
@log_format_option
@access_log_option
def run(host: str, port: int, log_format: LogFormat, *, access_log: bool, **settings: Any) -> None:
    """Run the server until it is stopped with Ctrl-C or SIGTERM.

    Programs need an access key: make one with 'mirror-server keys create NAME'.
    """
    configure(log_format, access_log=access_log)
    _serve(
        Settings(**settings),
        host,
        port,
        announce=lambda url, services: click.echo(f"Serving {shown(services.settings.database_url)} on {url}"),
    )


@main.command()
@port_option
@click.option(
    "--devices", type=click.IntRange(min=0), default=12, show_default=True, help="How many simulated devices to have."
)
@click.option(
    "--database",
    "database_url",
    metavar="URL",
    help="Keep the state there, sqlite:///FILE, and the key in FILE.key. Without it, both are lost at the end.",
)
@seed_option
@clock_option
@click.option(
    "--pace",
    type=click.FloatRange(min=0),
    default=0,
    show_default=True,
    help="How many seconds of a manual clock pass by themselves each second.",
)
@click.option(
    "--key",
    callback=_check_key,
    envvar="MIRROR_DEMO_KEY",
    show_envvar=True,
    help="The access key to have instead of a fresh or kept one; it is not printed.",
)
@click.option(
    "--stop-with-stdin",
    "follows_stdin",
    is_flag=True,
    help="Stop when the standard input ends, as it does when the program behind it ends.",
)
@log_format_option
def demo(
    port: int,
    devices: int,
    database_url: str | None,
    seed: int,
    pace: float,
    key: str | None,
    log_format: LogFormat,
    *,
    manual_clock: bool,
    follows_stdin: bool,
) -> None:
    """Run with simulated devices, a temporary database and a fresh key, for trying things out.

    Prints the two lines that tell programs where to go, and a link for a browser:

    \b
      export API_HOST=...
      export API_KEY=...
      # In a browser: ...

    With --database sqlite:///FILE the key is kept too, in FILE.key, which you alone can read: programs and recordings
    go on with it after the next start. To have another key, remove that file.
    """  # noqa: D301 - click wants the character, not its escape
    # Loads what serves, which a signal that raises must not interrupt.
    from mirror_server.serve import stop_with_stdin  # noqa: PLC0415

    # Until the server looks after its signals itself, SIGTERM is to remove the folder too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    configure(log_format)
    logging.getLogger("mirror_server").setLevel(logging.WARNING)
    if pace and not manual_clock:
        raise click.UsageError("--pace is for a manual clock; add --clock manual")
    if follows_stdin:
        stop_with_stdin()
    with _demo_database(database_url) as url:
        settings = Settings(
            database_url=url,
            simulate=devices,
            seed=seed,
            manual_clock=manual_clock,
            pace=pace,
            callback_networks=LOOPBACK,
        )
        _serve(settings, "127.0.0.1", port, announce=partial(_announce_demo, key, database_url))


@main.group()
def keys() -> None:
    """Make, list, renew and revoke access keys. One key is one application."""


def _check_name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise click.BadParameter("a name has at least one letter, and none that cannot be seen")
    return name


@keys.command("create")
@click.argument("name", callback=_check_name)
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="What the key may be used for; may be given several times. Without it: read, write and subscribe.",
)
@database_option
def create_key(name: str, scopes: Sequence[str], database_url: str) -> None:
    """Make an access key called NAME and print it.

    The key is shown this once: only a hash of it is stored.
    """
    with closing(Database(database_url)) as database:
        click.echo(access_keys.create(database, name, [Scope(word) for word in scopes] or DEFAULT_SCOPES, wall_time()))


@keys.command("list")
@database_option
def list_keys(database_url: str) -> None:
    """List all keys: id, name, scopes, when they were made, how they stand. The keys themselves are not stored."""
    with closing(Database(database_url, must_exist=True)) as database, database.read() as session:
        for key in stored_keys.list_all(session):
            created = _shown(key.created_at)
            click.echo("\t".join([key.key_id, key.name, key.scopes.replace(" ", ","), created, _use(session, key)]))


def _use(session: Session, key: StoredKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_shown(key.revoked_at)}"
    former = stored_keys.former_secrets(session, key.key_id, wall_time())
    return f"in use, also as it was before until {_shown(former[0].ends_at)}" if former else "in use"


def _shown(instant: Instant) -> str:
    return f"{to_datetime(instant):%Y-%m-%dT%H:%MZ}"


@keys.command("renew")
@click.argument("name")
@click.option(
    "--overlap",
    "overlap_seconds",
    metavar="TIME",
    default="24h",
    show_default=True,
    callback=_read_time,
    help="How long the key as it was before is still good: 30m, 24h, 7d, or 0 to end it at once.",
)
@database_option
def renew_key(name: str, overlap_seconds: int, database_url: str) -> None:
    """Make the key called NAME anew and print it; NAME may be its id too.

    It stays the same application, with its notifications, rules, subscriptions and webhook. The new key is shown this
    once. A running server need not be stopped. Keys that an earlier renewing left good end no later than this overlap.
    """
    with closing(Database(database_url, must_exist=True)) as database:
        try:
            key = access_keys.renew(database, name, overlap_seconds, wall_time())
        except LookupError as error:
            raise click.ClickException(error.args[0]) from None
    click.echo(key)


@keys.command("revoke")
@click.argument("key_id")
@database_option
def revoke_key(key_id: str, database_url: str) -> None:
    """Make the key with the id KEY_ID useless, at once and for good. 'keys list' shows the ids.

    Its webhook, rules, subscriptions and notifications are deleted, so that nothing is sent to it any more.
    """

    def work(session: Session) -> bool:
        is_revoked = stored_keys.revoke(session, key_id, wall_time())
        if is_revoked:
            maintenance.end_application(session, key_id)
            # Streams that other processes hold open look at once, and end.
            session.tell(f"{LOG} {key_id}")
        return is_revoked

    with closing(Database(database_url, must_exist=True)) as database:
        if not database.write(work):
            raise click.ClickException(f"no key with the id {key_id!r} is in use; 'mirror-server keys list' shows them")
    click.echo(f"revoked {key_id}")


@main.command()
@click.argument("device_id")
@click.confirmation_option(prompt="This deletes all that is stored of the device, for good. Go on?")
@database_option
def erase(device_id: str, database_url: str) -> None:
    """Erase all that is stored of a device, for the privacy of its user, and print a receipt.

    The notification logs are included: their readers are told of the gap. So are the presubscription rules that name
    the device. A running server need not be stopped.
    """
    with closing(Database(database_url, must_exist=True)) as database:
        rows = database.write(lambda session: maintenance.erase_device(session, device_id))
        is_purged = database.purge()
    if is_purged and not any(rows.values()):
        raise click.ClickException(f"nothing is stored of a device with the id {device_id!r}")
    receipt = {
        "device_id": device_id,
        "erased_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "purged": is_purged,
    }
    click.echo(json.dumps(receipt))
    if not is_purged:
        raise click.ClickException(
            "the database's files still hold what was erased, because somebody reads it at this moment; run this again"
            " until it says that nothing is stored"
        )


@main.command()
@database_option
def check(database_url: str) -> None:
    """Check the database: what is wrong, how often and where; exit status 1 if anything is."""
    found = check_database(database_url)
    for violation in found:
        click.echo(str(violation))
    if count := sum(violation.count for violation in found):
        things = "thing is" if count == 1 else "things are"
        raise click.ClickException(
            f"{count:,} {things} wrong; restore a backup ('mirror-server restore FILE' makes a new database of it), and"
            " keep this one for a report"
        )
    click.echo("all is well")


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@database_option
def backup(file: Path, database_url: str) -> None:
    """Copy the database into the new FILE. A running server need not be stopped.

    The copy of a database of an older version is of that version, so that there is a way back from an upgrade.
    """
    with closing(Database(database_url, must_exist=True, as_it_is=True)) as database:
        database.backup(file)
    click.echo(f"wrote {file}")


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@database_option
def restore(file: Path, database_url: str) -> None:
    """Make the database anew from the backup FILE. There must be none at the URL, so nothing is overwritten."""
    # The backup itself stays as it is, of whatever version.
    copy(file, path_of(database_url))
    with closing(Database(database_url)) as restored:
        restored.write(revisions.leave_behind)
    click.echo(f"restored {database_url}")


def _serve(settings: Settings, host: str, port: int, announce: Callable[[str, Services], None]) -> None:
    # Flask and uvicorn, which no other command needs.
    from mirror_server.serve import ListenError, listen, serve  # noqa: PLC0415
    from mirror_server.services import Services  # noqa: PLC0415

    try:
        listener = listen(host, port)
    except ListenError as error:
        raise click.ClickException(str(error)) from error
    services = Services(settings)
    authority = f"[{host}]" if ":" in host else host
    url = f"http://{authority}:{listener.getsockname()[1]}"
    serve(services, listener, announce=partial(announce, url, services))


@contextmanager
def _demo_database(url: str | None) -> Iterator[str]:
    """The database that was named, or one that is removed at the end."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="mirror-demo-") as folder:
        yield f"sqlite:///{Path(folder) / 'mirror.db'}"


def _announce_demo(given_key: str | None, database_url: str | None, url: str, services: Services) -> None:
    if given_key is not None:
        access_keys.adopt(services.database, given_key, demo_key.NAME, tuple(Scope), wall_time())
        click.echo(f"export API_HOST={url}")
        return
    key, note, problem = _demo_key(services.database, database_url)
    click.echo(f"export API_HOST={url}")
    click.echo(f"export API_KEY={key}")
    # Behind the #, so that the browser does not send it.
    click.echo(f"# In a browser: {url}/#key={key}")
    if note:
        click.echo(f"# {visible(note)}")
    if problem:
        click.echo(f"Warning: {visible(problem)}", err=True)


def _demo_key(database: Database, url: str | None) -> DemoKey:
    if url is not None and not is_postgresql(url):
        try:
            return demo_key.kept_key(database, path_of(url), wall_time())
        except demo_key.KeyFileError as error:
            raise click.ClickException(visible(str(error))) from error
    key = access_keys.reissue(database, demo_key.NAME, tuple(Scope), wall_time())
    return DemoKey(key, _NOT_KEPT if url else "")
