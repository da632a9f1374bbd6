"""Resources of the devices that tests add."""

from typing import Any


def sensor(path: str, value: str = "21.5", **more: Any) -> dict[str, Any]:
    """Return a readable and observable resource."""
    return {"path": path, "value": value, "observable": True, **more}


def setting(path: str, value: str = "0", **more: Any) -> dict[str, Any]:
    """Return a readable and writable resource."""
    return {"path": path, "value": value, "writable": True, **more}


def control(path: str, value: str = "0", **more: Any) -> dict[str, Any]:
    """Return a readable, writable and observable resource."""
    return setting(path, value, observable=True, **more)


def action(path: str) -> dict[str, Any]:
    """Return an executable resource."""
    return {"path": path, "executable": True}
