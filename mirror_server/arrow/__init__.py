"""Arrow streams, where pyarrow is installed: it is loaded with the modules of this package, and takes a moment."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def load() -> ModuleType | None:
    """The module that makes Arrow streams; ``None`` where there is no pyarrow."""
    try:
        return import_module("mirror_server.arrow.stream")
    except ImportError:
        return None
