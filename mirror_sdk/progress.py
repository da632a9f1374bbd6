"""Progress bars for long operations, and one switch for all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

from mirror_sdk._fork import import_locked

_switch: bool | None = None
_is_hidden: ContextVar[bool] = ContextVar("is_hidden", default=False)


def show_progress(enabled: bool | None) -> None:
    """Turn progress bars on or off. ``None``, which is the default, shows them in terminals and notebooks."""
    global _switch  # noqa: PLW0603 - one switch for the whole process
    _switch = enabled


@contextmanager
def without_progress() -> Iterator[None]:
    """Hide progress bars within a ``with`` block, in the current thread or task only."""
    token = _is_hidden.set(True)
    try:
        yield
    finally:
        _is_hidden.reset(token)


class ProgressBar(Protocol):
    """A progress bar that can be advanced."""

    def update(self, steps: int = 1, /) -> object:
        """Advance the bar by a number of steps."""


class _NoBar:
    def update(self, steps: int = 1, /) -> None:
        """Do nothing, because the bar is hidden."""


def progress_bar(total: int, label: str) -> AbstractContextManager[ProgressBar]:
    """Return a context manager with a ``tqdm`` bar, or with a hidden bar that does nothing."""
    if not _is_visible():
        return nullcontext(_NoBar())
    import_locked("tqdm.auto")  # an optional package that is slow to import
    from tqdm.auto import tqdm

    bar: AbstractContextManager[ProgressBar] = tqdm(total=total, desc=label, leave=False)
    return bar


def _is_visible() -> bool:
    if _is_hidden.get():
        return False
    return _has_viewer() if _switch is None else _switch


def _has_viewer() -> bool:
    ipython = sys.modules.get("IPython")
    # The output of a notebook kernel is not a terminal, but a user sees it.
    return hasattr(ipython and ipython.get_ipython(), "kernel") or (
        # A program without a console has no stderr.
        sys.stderr is not None and sys.stderr.isatty()
    )
