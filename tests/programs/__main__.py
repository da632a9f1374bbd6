"""Runs third-party programs for the public API against a mirror, and prints which of their calls pass.

Run it as ``python tests/programs``. The libraries come unmodified from the package indexes. A driver calls every public
function of each library and checks the result. Each program has its own server with simulated devices and a clock that
stands still.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

try:
    import click
    from libraries import LIBRARIES, Installed, Library, LibraryMissing, default_cache, install
    from reference_server import ServerSilent, reference_server
    from rich.console import Console
    from rich.table import Table
    from verdict import Verdict, judge
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing.name} is not installed; pip install '.[test]' does that") from None

ROOT = Path(__file__).parents[2]
_RUN_SECONDS = 300
_LEFT_OUT = 3


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("names", nargs=-1, metavar="[PROGRAM]...")
@click.option(
    "--cache",
    default=default_cache,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where node modules are installed, and kept for the next time.",
)
@click.option(
    "--json",
    "result",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file the result is written to, too.",
)
def main(names: tuple[str, ...], cache: Path, result: Path | None) -> None:
    """Run third-party programs whose names contain one of PROGRAM, or all, and print which of their calls pass.

    If a library is not available, the command reports what it requires and continues with the others. The exit status
    is 1 if a step failed, or if a call was neither run nor listed as out of scope. Otherwise it is 3 if a program was
    not run.
    """
    chosen = [one for one in LIBRARIES if not names or any(name.lower() in one.name.lower() for name in names)]
    if not chosen:
        raise click.UsageError(f"no such program; there are {'; '.join(one.name for one in LIBRARIES)}")
    console = Console(width=None if os.isatty(1) else 160)
    began = time.monotonic()
    installed: dict[Library, Installed] = {}
    left_out: dict[Library, str] = {}
    for one in chosen:
        try:
            installed[one] = install(one, cache)
        except LibraryMissing as error:
            left_out[one] = str(error)
    ready = time.monotonic()
    with ThreadPoolExecutor(len(chosen)) as pool:
        verdicts = dict(zip(installed, pool.map(_run, installed.values()), strict=True))
    for library, verdict in verdicts.items():
        console.print(_table(f"{library.name}: {installed[library].package}", verdict))
    console.print(f"installed in {ready - began:.0f} s, run in {time.monotonic() - ready:.0f} s", highlight=False)
    if result:
        content = {one.name: {"package": installed[one].package} | asdict(verdicts[one]) for one in installed}
        result.write_text(json.dumps(content, indent=1))
    for one, why in left_out.items():
        click.echo(f"{one.name}: not run: {why}", err=True)
    complaints = [f"{one.name}: {complaint}" for one in installed for complaint in verdicts[one].complaints]
    if complaints:
        raise click.ClickException("\n".join(complaints))
    if left_out:
        raise SystemExit(_LEFT_OUT)


def _run(installed: Installed) -> Verdict:
    """Run a driver against its own server."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mirror-programs-")))
        # An empty home and working folder, so that a library finds no settings of its user.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MIRROR_", "MBED_"))}
        environment = inherited | {"PYTHONPATH": str(ROOT), "HOME": str(folder)}
        try:
            leading = stack.enter_context(reference_server(folder, environment, installed.by_tls))
            done = subprocess.run(
                installed.command,
                env=environment | installed.environment | leading,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=_RUN_SECONDS,
            )
        except (subprocess.TimeoutExpired, ServerSilent) as error:
            return judge([], str(error))
    return judge(done.stdout.splitlines(), done.stderr)


def _table(title: str, verdict: Verdict) -> Table:
    table = Table("call", "steps", "passed", title=title)
    for name, (steps, passed) in verdict.calls.items():
        table.add_row(name, str(steps), str(passed), style="green" if passed == steps else "red")
    for why in dict.fromkeys(verdict.out.values()):
        table.add_row(", ".join(name for name, its in verdict.out.items() if its == why), "out", why)
    return table


if __name__ == "__main__":
    main()
