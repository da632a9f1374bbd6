"""httpx without its command line, whose imports take twice as long as httpx itself. Import it from here."""

from __future__ import annotations

import sys

_COMMAND_LINE = "httpx._main"

if "httpx" in sys.modules:
    import httpx
else:
    # As if what the command line needs were not installed, which httpx is prepared for.
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment] # which is how an import is made to fail
    import httpx

    del sys.modules[_COMMAND_LINE]

__all__ = ["httpx"]
