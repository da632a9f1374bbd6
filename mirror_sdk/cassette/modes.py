"""The modes of a cassette, which determine whether responses are recorded in it or replayed from it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from mirror_sdk.cassette.cassette_file import CassetteFile
from mirror_sdk.cassette.player import Player
from mirror_sdk.cassette.recorder import CassetteRecorder
from mirror_sdk.errors import InvalidValue

Mode: TypeAlias = Literal["once", "replay", "record", "none"]
"""The mode of a cassette.

- ``once`` plays an existing cassette, and records a cassette that does not exist;
- ``replay`` always plays;
- ``record`` always records;
- ``none`` does neither, so requests are sent to the service.
"""


def is_played(path: str | PathLike[str], mode: Mode) -> bool:
    """Return whether the responses come from the cassette at this path, instead of the service.

    Raises:
        FileNotFoundError: The mode is ``replay``, but the cassette does not exist.
        InvalidValue: The mode is not valid.
    """
    if mode not in get_args(Mode):
        raise InvalidValue(f"mode={mode!r} must be one of {', '.join(get_args(Mode))}")
    exists = Path(path).exists()
    if mode == "replay" and not exists:
        raise FileNotFoundError(f"there is no cassette {path}; record it with client.cassettes.use({str(path)!r})")
    return mode == "replay" or (mode == "once" and exists)


def open_cassette(
    path: str | PathLike[str], mode: Mode, base_url: str, api_key: str
) -> CassetteRecorder | Player | None:
    """Open a cassette, and return a recorder or a player for it. Return ``None`` if the mode uses neither of them.

    Raises:
        CassetteDamaged: The file is not a cassette, or it is a cassette of another format version.
        FileNotFoundError: The mode is ``replay``, but the cassette does not exist.
        OSError: The file cannot be read.
        InvalidValue: The mode is not valid.
    """
    if is_played(path, mode):
        return Player(Path(path))
    return None if mode == "none" else CassetteRecorder(Path(path), base_url, api_key)


def address_of(path: str | PathLike[str]) -> str:
    """Return the address of the recorded service.

    Raises:
        CassetteDamaged: The file is not a cassette, or it is a cassette of another format version.
        OSError: The file cannot be read.
    """
    file = CassetteFile(path)
    file.close()
    return file.manifest.base_url
