"""Writing files to the disk before the program continues."""

from __future__ import annotations

import os
from pathlib import Path


def fsync(path: Path) -> None:
    """Wait until the content of a file, or the list of files in a folder, has been written to the disk.

    Raises:
        OSError: The file or folder cannot be written.
    """
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return  # Windows cannot open folders
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
