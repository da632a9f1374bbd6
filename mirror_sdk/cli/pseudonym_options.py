"""The options for pseudonyms in a file.

The key is never an option, because other users of the machine can see options.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirror_sdk.cli.arguments import Command
from mirror_sdk.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd

KEY_VARIABLE = "MIRROR_PSEUDONYM_KEY"
_KEY_FILE = "--pseudonym-key-file"


def pseudonym_options(command: Command) -> Command:
    """Add the options of a command that writes a table: ``pseudonymize`` and ``pseudonym_key_file``."""
    with_key = click.option(
        _KEY_FILE,
        "pseudonym_key_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"File with the key for the pseudonyms. By default the command uses {KEY_VARIABLE} or prompts for it.",
    )
    is_requested = click.option(
        "--pseudonymize",
        is_flag=True,
        help="Replace ids, names and personal values with pseudonyms; see 'mirror help privacy'.",
    )
    return is_requested(with_key(command))


def read_key(*, is_requested: bool, file: Path | None) -> str | bytes | None:
    """Return the key, or ``None`` if pseudonyms are not requested.

    Raises:
        BadParameter: The key is missing or too short, or a key file was passed although pseudonyms are not requested.
    """
    if not is_requested:
        if file is not None:
            raise click.BadParameter("only applies to --pseudonymize; add that option", param_hint=_KEY_FILE)
        return None
    key: str | bytes
    if file is not None:
        key, source = file.read_bytes().strip(b"\r\n"), _KEY_FILE
    elif KEY_VARIABLE in os.environ:
        key, source = os.environ[KEY_VARIABLE], KEY_VARIABLE
    elif sys.stdin.isatty():
        key = click.prompt("Key of the pseudonyms", hide_input=True, confirmation_prompt=True, err=True)
        source = "--pseudonymize"
    else:
        raise click.BadParameter(
            f"the key is missing; set {KEY_VARIABLE}, or pass {_KEY_FILE}", param_hint="--pseudonymize"
        )
    from mirror_sdk.privacy.pseudonyms import Pseudonyms

    try:
        Pseudonyms(key)
    except InvalidValue as error:
        raise click.BadParameter(str(error), param_hint=source) from error
    return key


def pseudonymized(frame: pd.DataFrame, key: str | bytes | None) -> pd.DataFrame:
    """Return the table with pseudonyms if there is a key, and print the number of replaced cells."""
    if key is None:
        return frame
    from mirror_sdk.frames import mirror

    shared = mirror(frame).pseudonymize(key)
    for line in shared.attrs["mirror"]["pseudonymized"]:
        of_resource = f" of {line['resource']}" if line["resource"] else ""
        click.echo(f"{line['column']}{of_resource}: {line['cells']} replaced ({line['how']})", err=True)
    return shared
