"""Operating the reference server of the device state mirror: settings, keys, storage, monitoring, deployment."""

from typing import TYPE_CHECKING

import mirror_sdk

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return mirror_sdk.__version__
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
