"""Progress bars of what takes long, with one switch for all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

from mirror_sdk._fork import import_locked

_switch: bool | None = None
_is_told_elsewhere: ContextVar[bool] = ContextVar("is_told_elsewhere", default=False)


def show_progress(enabled: bool | None) -> None:
    """Turn progress bars on or off; ``None``, the default, shows them in a terminal and in a notebook."""
    global _switch  # noqa: PLW0603 - one switch for the whole process is what it is for
    _switch = enabled


@contextmanager
def without_progress() -> Iterator[None]:
    """No bars in here, for this thread or task alone: something else tells how far it is."""
    token = _is_told_elsewhere.set(True)
    try:
        yield
    finally:
        _is_told_elsewhere.reset(token)


class ProgressBar(Protocol):
    """What is told how far it is."""

    def update(self, steps: int = 1, /) -> object:
        """So many steps more are done."""


class _NoBar:
    """Stands in the place of a progress bar that nobody looks at."""

    def update(self, steps: int = 1, /) -> None:
        """Take note of steps."""


def progress_bar(total: int, label: str) -> AbstractContextManager[ProgressBar]:
    """A bar of ``tqdm`` for so many steps, in a ``with`` statement; a silent one where none is to be shown."""
    if not _is_shown():
        return nullcontext(_NoBar())
    import_locked("tqdm.auto")  # an extra, and slow to import
    from tqdm.auto import tqdm

    bar: AbstractContextManager[ProgressBar] = tqdm(total=total, desc=label, leave=False)
    return bar


def _is_shown() -> bool:
    if _is_told_elsewhere.get():
        return False
    return _is_looked_at() if _switch is None else _switch


def _is_looked_at() -> bool:
    ipython = sys.modules.get("IPython")
    # The output of a kernel is no terminal, and still somebody looks at it.
    return hasattr(ipython and ipython.get_ipython(), "kernel") or (
        # A program without a console has no standard error.
        sys.stderr is not None and sys.stderr.isatty()
    )
