"""Pseudonyms in what a command writes: the options for them, and the key, which is never an argument."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mirror_sdk.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd

Command = TypeVar("Command", bound=Callable[..., Any])

KEY_VARIABLE = "MIRROR_PSEUDONYM_KEY"
_KEY_FILE = "--pseudonym-key-file"


def pseudonym_options(command: Command) -> Command:
    """The options of a command that writes a table: ``pseudonymize`` and ``pseudonym_key_file``."""
    with_key = click.option(
        _KEY_FILE,
        "pseudonym_key_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"The file with the key; without it {KEY_VARIABLE} has it, or it is asked for.",
    )
    is_wanted = click.option(
        "--pseudonymize", is_flag=True, help="Pseudonyms for ids, names and personal values; see 'mirror help privacy'."
    )
    return is_wanted(with_key(command))


def read_key(*, is_wanted: bool, file: Path | None) -> str | bytes | None:
    """The key; ``None`` where no pseudonyms are wanted. It is not an option, for others see those of a process.

    Raises:
        BadParameter: There is none, it is too short, or there is a file for no pseudonyms.
    """
    if not is_wanted:
        if file is not None:
            raise click.BadParameter("goes with --pseudonymize alone", param_hint=_KEY_FILE)
        return None
    key, hint = _told_key(file)
    from mirror_sdk.privacy.pseudonyms import Pseudonyms

    try:
        Pseudonyms(key)
    except InvalidValue as error:
        raise click.BadParameter(str(error), param_hint=hint) from error
    return key


def pseudonymized(frame: pd.DataFrame, key: str | bytes | None) -> pd.DataFrame:
    """The table with pseudonyms, where there is a key; it says how much was replaced."""
    if key is None:
        return frame
    from mirror_sdk.frames import mirror

    shared = mirror(frame).pseudonymize(key)
    for line in shared.attrs["mirror"]["pseudonymized"]:
        click.echo(f"{_what(line)}: {line['cells']} replaced ({line['how']})", err=True)
    return shared


def _told_key(file: Path | None) -> tuple[str | bytes, str]:
    """The key, and where it was told."""
    if file is not None:
        return file.read_bytes().strip(b"\r\n"), _KEY_FILE
    if (told := os.environ.get(KEY_VARIABLE)) is not None:
        return told, KEY_VARIABLE
    if not sys.stdin.isatty():
        raise click.BadParameter(
            f"there is no key; set {KEY_VARIABLE}, or give {_KEY_FILE}", param_hint="--pseudonymize"
        )
    asked: str = click.prompt("Key of the pseudonyms", hide_input=True, confirmation_prompt=True, err=True)
    return asked, "--pseudonymize"


def _what(line: dict[str, Any]) -> str:
    return f"{line['column']} of {line['resource']}" if line["resource"] else str(line["column"])
