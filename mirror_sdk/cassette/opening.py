"""Whether a cassette is recorded or played, and what of it goes into a client."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from mirror_sdk.cassette.content import CassetteFile
from mirror_sdk.cassette.player import Player
from mirror_sdk.cassette.recorder import CassetteRecorder
from mirror_sdk.errors import InvalidValue

Mode: TypeAlias = Literal["once", "replay", "record", "none"]
"""``once`` plays a cassette that is there and records one that is not, ``replay`` plays it, ``record`` records it
anew, ``none`` does neither: the service is asked."""


def is_played(path: str | PathLike[str], mode: Mode) -> bool:
    """Whether a cassette is played.

    Raises:
        FileNotFoundError: It is to be, and is not there.
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
    """What records or plays a cassette; ``None`` where neither is done.

    Raises:
        CassetteDamaged: It is no cassette, or one of another version.
        FileNotFoundError: It is to be played, and is not there.
        OSError: It cannot be read.
        InvalidValue: There is no such mode.
    """
    if is_played(path, mode):
        return Player(Path(path))
    return None if mode == "none" else CassetteRecorder(Path(path), base_url, api_key)


def address_of(path: str | PathLike[str]) -> str:
    """The address of the service that a cassette was recorded of.

    Raises:
        CassetteDamaged: It is no cassette, or one of another version.
        OSError: It cannot be read.
    """
    file = CassetteFile(path)
    file.close()
    return file.manifest.base_url
