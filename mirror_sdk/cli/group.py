"""The group of commands: what there is, and how failures are told. It is all that ``mirror --help`` loads."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import click

from mirror_sdk._lazy_group import LazyGroup

_MODULES = {
    "mirror_sdk.cli.device_commands": [
        "acknowledge",
        "device-events",
        "devices",
        "execute",
        "get",
        "read",
        "requests",
        "rules",
        "subscribe",
        "write",
    ],
    "mirror_sdk.cli.fleet_commands": ["drift", "plan", "snapshot"],
    "mirror_sdk.cli.help_command": ["help"],
    "mirror_sdk.cli.lab_command": ["lab"],
    "mirror_sdk.cli.log_commands": ["record", "watch"],
    "mirror_sdk.cli.past_commands": ["as-of", "history"],
}


_ENDED_BY_CTRL_C = {"lab", "watch"}
_WHERE_IT_WAITS = (
    "'mirror requests' shows whether it waits, 'mirror devices --connections' whether the device can be reached"
)


_OF_THE_SHELL = [
    (r"\ballow_read_only=True", "--allow-read-only"),
    (r"\bgive a larger expiry_seconds", "give a larger --expiry-seconds"),
    (r"\bexpiry_seconds= makes", "--expiry-seconds makes"),
    (
        r"ask the same handle again, give a longer timeout, or take it up from anywhere with (?=client\.)",
        "give a longer --timeout, or take it up in Python with ",
    ),
    (r"\bgive a longer timeout=", "give a longer --timeout in front of the command"),
    (r"\bwith expiry_seconds$", "with --expiry-seconds"),
    (r"\bGET /v2/endpoints/(\w+) lists", r"'mirror get \1' lists"),
    (r"\bGET /v3/devices lists", "'mirror devices' lists"),
    (r"\bclient\.devices\.queries\.list\(\) shows", "in Python client.devices.queries.list() shows"),
    (r"\bclient\.devices\.resources\(device(_id)?\) shows", "'mirror get DEVICE' shows"),
    (r"\bclient\.devices\.list\(\) shows", "'mirror devices' shows"),
    (r"\bif_match=(\d+) is no revision; .*", r"--if-match \1 is no revision; 'mirror get --json' shows it"),
    (r"^0\.endpoint_name:", "--device:"),
    (r"^0\.endpoint_type:", "--type:"),
    (r"\bgive the client a larger max_snapshot_bytes \((--[a-z-]+)\)", r"give a larger \1"),
    (r"\bclient\.record\(.*\) makes", "'mirror record FOLDER' makes"),
    (r"\bclient\.subscriptions\.rules\.list\(\) shows", "'mirror rules' shows"),
    (r"\brecord\(\.\.\., subscribe=True\), or --subscribe in a shell,", "--subscribe"),
    (r"\bclient\.subscriptions\.rules\.add\(\), or mirror rules --add,", "'mirror rules --add'"),
    (r"\bby Recording, and finalized by a recorder .*, or by .*\(in a shell --finalize\)", "with --finalize"),
    (r"\boverwrite=True \(--overwrite\)", "--overwrite"),
    (r"\bcanary=(?=\d)", "--canary "),
    (r"\bapply\(\) sends", "--apply sends"),
    (r"\bapply\(\) looks again", "'mirror requests' shows what waits"),
    (r"\bapi_key is missing: give the argument api_key= or set", "there is no access key: set"),
    (r"^api_key must be", "API_KEY must be"),
    (r"^base_url (?=must be|is not|'.*' is not)", "API_HOST "),
    (r"\bdoes base_url point elsewhere\?", "does API_HOST point elsewhere?"),
]
"""What errors name for programs, and what it is here; whole phrases, as a device or a file may have any name."""


class _NoAnswer(click.ClickException):
    """The device, or the mirror, did not answer in time."""

    exit_code = 3


class _ClientCommands(LazyGroup):
    """Tells what went wrong in one line."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, from its module; a Ctrl-C meanwhile ends at once what is to run until Ctrl-C."""
        try:
            return super().get_command(ctx, cmd_name)
        except KeyboardInterrupt:
            if cmd_name not in _ENDED_BY_CTRL_C:
                raise
            ctx.exit(0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _tell_warning
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            # Of the last of them: whoever read the output has enough; click ends quietly.
            raise
        except Exception as error:
            told = _told(error)
            if told is None:
                raise
            raise told from error


def _told(error: Exception) -> click.ClickException | None:
    """The error in one line; ``None`` for one that nobody expects."""
    # After a command, which has loaded them: the help of the group needs neither.
    from mirror_sdk.errors import CallTimeout, MirrorError, WaitTimeout
    from mirror_sdk.lab.demo import DemoError

    if isinstance(error, WaitTimeout):
        return _NoAnswer(in_words_of_the_shell(f"{error}; {_WHERE_IT_WAITS}"))
    if isinstance(error, CallTimeout):
        return _NoAnswer(in_words_of_the_shell(str(error)))
    if isinstance(error, OSError) and error.filename and error.strerror and not isinstance(error, MirrorError):
        return click.ClickException(f"{error.filename}: {error.strerror}")
    if isinstance(error, MirrorError | DemoError | ImportError | OSError):
        return click.ClickException(in_words_of_the_shell(str(error)))
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        encoding = sys.getfilesystemencoding()
        cure = "write it in that" if encoding == "utf-8" else "set PYTHONUTF8=1 if it is UTF-8"
        return click.ClickException(f"{error.object!a} is no text in {encoding}, the encoding of words here; {cure}")
    return None


def _tell_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning without the line of this program that it came from."""
    click.echo(f"Warning: {in_words_of_the_shell(str(message))}", err=True)


def in_words_of_the_shell(told: str) -> str:
    """What is told to programs, as whoever sits at a shell may do it."""
    for of_programs, here in _OF_THE_SHELL:
        told = re.sub(of_programs, here, told)
    return told


@click.group(cls=_ClientCommands, modules=_MODULES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="device-state-mirror")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds each call of the mirror may take as a whole; 30 by default.",
)
@click.option(
    "--max-retries",
    type=click.IntRange(min=0),
    help="How often a call is tried again when the mirror is busy or out of reach; 2 by default.",
)
def main(timeout: float | None, max_retries: int | None) -> None:
    """Work with a device state mirror.

    \b
    Begin here: a mirror with simulated devices, and JupyterLab on the first notebook:
      mirror lab

    \b
    All other commands but 'help' ask the mirror that API_HOST and API_KEY lead to; without API_HOST
    that is http://127.0.0.1:8080, where 'mirror-server demo' and 'run' listen:
      export API_HOST=http://127.0.0.1:8080 API_KEY=ak_...
      mirror devices --state registered
      mirror write light-01 /3311/0/5851 40
      mirror plan wanted.csv --apply
      mirror get light-01
      mirror history light-01 --since 2h
      mirror watch --path '/3303/*'
      mirror record run.parquet

    \b
    A DEVICE is an id or an endpoint name. To complete names and paths in bash:
      eval "$(_MIRROR_COMPLETE=bash_source mirror)"
    and with zsh_source or fish_source in those shells.

    \b
    The manual by topics:
      mirror help

    \b
    Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no answer in time.
    """  # noqa: D301 - click wants the character, not its escape
