"""Test support: pytest fixtures with a mirror inside the test process, faults, cassettes, and conformance tests."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_sdk.testing.clock import Clock
    from mirror_sdk.testing.device import FleetDevice
    from mirror_sdk.testing.fault import Fault
    from mirror_sdk.testing.faults import Faults
    from mirror_sdk.testing.mirror import Mirror

__all__ = ["Clock", "Fault", "Faults", "FleetDevice", "Mirror"]

# These names are loaded on first use, because pytest loads this package, which contains the plugin, in every project.
_MODULES = {"Clock": "clock", "Fault": "fault", "Faults": "faults", "FleetDevice": "device", "Mirror": "mirror"}

if not TYPE_CHECKING:  # which would believe that there are names of any spelling

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
