"""The command of the extension."""

from contextlib import closing

import click

from mirror_sample import SampleSettings
from mirror_server.cli import main
from mirror_server.config import database_option, options_of
from mirror_server.hooks import open_database
from mirror_server.store.maintenance import current_instant


@main.command()
@database_option
@options_of("quiet-devices", SampleSettings)
def quiet_devices(database_url: str, sample_quiet_seconds: float) -> None:
    """List the devices whose last value was published some time ago."""
    with closing(open_database(database_url, must_exist=True)) as database, database.read() as session:
        until = current_instant(session) - round(1000 * sample_quiet_seconds)
        statement = "SELECT device_id FROM sample_counts WHERE published_at <= :until ORDER BY device_id"
        for (device_id,) in session.rows(statement, until=until):
            click.echo(device_id)
