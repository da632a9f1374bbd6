"""The group of commands, and the messages of their errors.

``mirror --help`` does not load any other module.
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import click

from mirror_sdk._lazy_command_group import LazyGroup

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
    "mirror_sdk.cli.event_commands": ["record", "watch"],
    "mirror_sdk.cli.fleet_commands": ["drift", "plan", "snapshot"],
    "mirror_sdk.cli.help_command": ["help"],
    "mirror_sdk.cli.history_commands": ["as-of", "history"],
    "mirror_sdk.cli.lab_command": ["lab"],
    "mirror_sdk.cli.sql_command": ["sql"],
}


_WAITING_ADVICE = (
    "'mirror requests' shows whether it waits, 'mirror devices --connections' whether the device can be reached"
)


_SHELL_PHRASES = [
    (r"\ballow_read_only=True", "--allow-read-only"),
    (r"\bpass a larger expiry_seconds", "pass a larger --expiry-seconds"),
    (r"\bexpiry_seconds= limits this", "--expiry-seconds limits this"),
    (
        r"Call result\(\) again, pass a longer timeout, or resume the request in any process with (?=client\.)",
        "Pass a longer --timeout, or resume the request in Python with ",
    ),
    (r"\bpass a longer timeout=", "pass a longer --timeout before the command"),
    (r"\bwith expiry_seconds$", "with --expiry-seconds"),
    (r"\bclient\.devices\.resources\('(\w+)'\) lists", r"'mirror get \1' lists"),
    (r"; error\.oldest_at has the start", ""),
    (r"\bGET /v3/devices lists", "'mirror devices' lists"),
    (r"\bclient\.devices\.resources\(device(_id)?\) shows", "'mirror get DEVICE' shows"),
    (r"\bclient\.devices\.list\(\) (shows|returns)", "'mirror devices' shows"),
    (r"\bif_match=(\d+) is not a revision; .*", r"--if-match \1 is not a revision; 'mirror get --json' shows it"),
    (r"^rule 0\.endpoint_name:", "--device:"),
    (r"^rule 0\.endpoint_type:", "--type:"),
    (r"\bclient\.record\(.*\) starts", "'mirror record FOLDER' starts"),
    (r"\bcanary=(?=\d)", "--canary "),
    (r"\bpass explain=True \(--explain\) to see", "use --explain to see"),
    (r"\bpass a larger max_rows", "pass a larger --max-rows"),
    (r"\bmax_rows=(?=\d)", "--max-rows "),
    (r"\bapply\(\) sends", "--apply sends"),
    (
        r"\bcall apply\(\) again to read the responses \(no write is sent twice\)",
        "'mirror requests' lists waiting requests",
    ),
    (r"\binclude_offline=True sends the write anyway", "--include-offline sends the write anyway"),
    (
        r"\bpass a mapping such as .*, in a list of \(device, path, value\)",
        "a CSV file cannot write several instances; use client.plan() in Python",
    ),
    (r"\bpass another content_type$", "use Python and pass another content_type"),
    (r"\bpass another one as accept=$", "use Python and pass another one as accept="),
    (r"\bremove some with client\.subscriptions\.rules\.remove\(\)", "remove some with 'mirror rules --remove'"),
    (
        r"\bcompare client\.subscriptions\.rules\.list\(\) with the rules you need, and remove the others with"
        r" client\.subscriptions\.rules\.remove\(\)",
        "compare 'mirror rules' with the rules you need, and remove the others with 'mirror rules --remove'",
    ),
    (r' \(attrs\["mirror"\]\["one_instant"\] is false\)', ""),
    (
        r"; pass subscribe=True, or add rules with client\.subscriptions\.rules\.add\(\)",
        "; pass --subscribe, or add rules with 'mirror rules --add'",
    ),
    (r"\bstate_file=.*?: the folder", "--state-file: the folder"),
    (r"\banother state_file\b", "another --state-file"),
    (r"^state_file needs ", "--state-file needs "),
    (r"\bclient\.record creates", "'mirror record FOLDER' creates"),
    (
        r"\bcreate the client with a larger timeout=\. Or pass timeout= to this call: .*",
        "pass a larger --timeout before the command",
    ),
    (r"\bapi_key is missing: pass the argument api_key= or set", "there is no access key: set"),
    (r"^api_key (?=must be|is empty)", "API_KEY "),
    (r"^base_url (?=must be|is not|'.*' is not)", "API_HOST "),
    (r"\bdoes base_url point elsewhere\?", "does API_HOST point elsewhere?"),
]
"""The phrases in error messages for programs, and their replacements for the shell.

Complete phrases are replaced, because a device may have any name. Messages that already contain the option of the shell
are not in this list.
"""


class _NoResponse(click.ClickException):
    """The error for a device or a mirror that did not respond in time."""

    exit_code = 3


class _ClientCommands(LazyGroup):
    """A command group that reports each error in a single line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            # BrokenPipeError means that the reader of the output has closed it. In this case, click ends quietly.
            raise
        except Exception as error:
            reported = _reported(error)
            if reported is None:
                raise
            raise reported from error


def _reported(error: Exception) -> click.ClickException | None:
    """Return the error as a single line of output. The result is ``None`` for an unexpected error."""
    # These modules are imported here, because the help of the group does not need them.
    from mirror_sdk.errors import CallTimeout, MirrorError, WaitTimeout
    from mirror_sdk.lab.demo import DemoError

    if isinstance(error, WaitTimeout):
        return _NoResponse(in_words_of_the_shell(f"{error}; {_WAITING_ADVICE}"))
    if isinstance(error, CallTimeout):
        return _NoResponse(in_words_of_the_shell(str(error)))
    if isinstance(error, OSError) and error.filename and error.strerror and not isinstance(error, MirrorError):
        return click.ClickException(f"{error.filename}: {error.strerror}")
    if isinstance(error, MirrorError | DemoError | ImportError | OSError):
        return click.ClickException(in_words_of_the_shell(str(error)))
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        encoding = sys.getfilesystemencoding()
        cure = "pass it in that encoding" if encoding == "utf-8" else "set PYTHONUTF8=1 if it is UTF-8"
        return click.ClickException(f"{error.object!a} is not valid {encoding}, the encoding of arguments; {cure}")
    return None


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without the line of source code that caused it."""
    click.echo(f"Warning: {in_words_of_the_shell(str(message))}", err=True)


def in_words_of_the_shell(message: str) -> str:
    """Return a message for programs in which Python calls are replaced by options and commands of the shell."""
    for pattern, replacement in _SHELL_PHRASES:
        message = re.sub(pattern, replacement, message)
    return message


@click.group(cls=_ClientCommands, modules=_MODULES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="device-state-mirror")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds that each call to the mirror may take, with all retries. By default 30. Raise it for large fleets.",
)
@click.option(
    "--max-retries",
    type=click.IntRange(min=0),
    help="How many times to retry a call if the mirror is busy or unreachable. By default 2.",
)
def main(timeout: float | None, max_retries: int | None) -> None:
    """Use a device state mirror.

    \b
    To start, run a mirror with simulated devices, and JupyterLab with the first notebook:
      mirror lab

    \b
    All other commands except 'help' connect to the mirror at API_HOST with the key API_KEY.
    By default API_HOST is http://127.0.0.1:8080, where 'mirror-server demo' and 'run' listen:
      export API_HOST=http://127.0.0.1:8080 API_KEY=ak_...
      mirror devices --state registered
      mirror write light-01 /3311/0/5851 40
      mirror plan wanted.csv --apply
      mirror get light-01
      mirror history light-01 --since 2h
      mirror sql "select path, count(*) from state group by all"
      mirror watch --path '/3303/*'
      mirror record run.parquet

    \b
    A DEVICE is an id or an endpoint name. To complete names and paths in bash:
      eval "$(_MIRROR_COMPLETE=bash_source mirror)"
    In zsh or fish, use zsh_source or fish_source instead.

    \b
    The manual by topics:
      mirror help

    \b
    Exit status: 0 for success, 1 if something was rejected or failed, 2 for wrong usage,
    3 if the device or the mirror did not respond in time.
    """  # noqa: D301 - click wants the character, not its escape
