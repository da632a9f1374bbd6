"""The modes of a cassette: whether it is recorded or played."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from mirror_sdk.cassette.content import CassetteFile
from mirror_sdk.cassette.player import Player
from mirror_sdk.cassette.recorder import CassetteRecorder
from mirror_sdk.errors import InvalidValue

Mode: TypeAlias = Literal["once", "replay", "record", "none"]
"""``once`` plays a cassette that exists and records one that does not, ``replay`` plays it, ``record`` always records,
``none`` does neither: requests go to the service."""


def is_played(path: str | PathLike[str], mode: Mode) -> bool:
    """Return whether a cassette is played.

    Raises:
        FileNotFoundError: It should be played and does not exist.
        InvalidValue: There is no such mode.
    """
    if mode not in get_args(Mode):
        raise InvalidValue(f"mode={mode!r} must be one of {', '.join(get_args(Mode))}")
    is_there = Path(path).exists()
    if mode == "replay" and not is_there:
        raise FileNotFoundError(f"there is no cassette {path}; record it with client.cassettes.use({str(path)!r})")
    return mode == "replay" or (mode == "once" and is_there)


def open_cassette(
    path: str | PathLike[str], mode: Mode, base_url: str, api_key: str
) -> CassetteRecorder | Player | None:
    """Return the recorder or player of a cassette; ``None`` if it is neither recorded nor played.

    Raises:
        CassetteDamaged: It is not a cassette, or one of another format version.
        FileNotFoundError: It should be played and does not exist.
        OSError: It cannot be read.
        InvalidValue: There is no such mode.
    """
    if is_played(path, mode):
        return Player(Path(path))
    return None if mode == "none" else CassetteRecorder(Path(path), base_url, api_key)


def address_of(path: str | PathLike[str]) -> str:
    """Return the address of the service of which a cassette was recorded.

    Raises:
        CassetteDamaged: It is not a cassette, or one of another format version.
        OSError: It cannot be read.
    """
    file = CassetteFile(path)
    file.close()
    return file.manifest.base_url
