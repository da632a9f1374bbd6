"""Resources of a device, as a test adds it."""

from typing import Any


def sensor(path: str, value: str = "21.5", **more: Any) -> dict[str, Any]:
    """One that is measured: it can be read and observed."""
    return {"path": path, "value": value, "observable": True, **more}


def setting(path: str, value: str = "0", **more: Any) -> dict[str, Any]:
    """One that can be read and written."""
    return {"path": path, "value": value, "writable": True, **more}


def control(path: str, value: str = "0", **more: Any) -> dict[str, Any]:
    """One that can be read, written and observed."""
    return setting(path, value, observable=True, **more)


def action(path: str) -> dict[str, Any]:
    """One that is executed."""
    return {"path": path, "executable": True}
