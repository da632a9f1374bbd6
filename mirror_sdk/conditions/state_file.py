"""The file that stores the state of a watch of conditions between two runs of a program."""

from __future__ import annotations

import os
from pathlib import Path

from mirror_sdk._fork import abandon_in_child, register_fork_handler
from mirror_sdk._fsync import fsync
from mirror_sdk.errors import InvalidValue

try:
    from filelock import FileLock, Timeout
except ImportError as _error:
    raise ImportError(f'state_file needs {_error.name}: pip install "device-state-mirror[frames]"') from _error


class StateFile:
    """A file with the state of a watch, which one program uses at a time.

    Args:
        path: The path of the file. A second file, with the suffix ``.lock``, locks it.

    Raises:
        OSError: The file cannot be read.
        InvalidValue: Another program uses the file, or its folder does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.parent.is_dir():
            raise InvalidValue(f"state_file={str(path)!r}: the folder does not exist; create it first")
        # The lock is not bound to a thread, because an asynchronous client uses the file in different threads.
        self._lock = FileLock(f"{path}.lock", thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as exc:
            raise InvalidValue(
                f"{path} is in use by another program or watch; stop it, or pass another state_file"
            ) from exc
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Leave the file to the parent process."""
        abandon_in_child(self._lock)

    def read(self) -> bytes | None:
        """Return the content of the file, or ``None`` if it does not exist.

        Raises:
            OSError: The file cannot be read.
        """
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, content: bytes) -> None:
        """Replace the content of the file. After a crash, the file has either the old or the new content.

        Raises:
            OSError: The file cannot be written.
        """
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_bytes(content)
        fsync(new)
        os.replace(new, self.path)  # noqa: PTH105 - Path.replace is the same
        fsync(self.path.parent)

    def close(self) -> None:
        """Let other programs use the file."""
        self._lock.release()
