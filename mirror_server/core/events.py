"""The JSON of log entries. Source: wire.md 5."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable
from typing import Any

from mirror_server.core.instants import Instant


def encode(payload: bytes) -> str:
    """Base64, as every payload travels."""
    return b2a_base64(payload, newline=False).decode("ascii")


def async_response(
    *,
    async_id: str,
    device_id: str,
    endpoint_name: str,
    path: str,
    status: int,
    category: str | None,
    payload: bytes,
    content_type: str | None,
    max_age_seconds: int | None,
    at: Instant,
) -> dict[str, Any]:
    """The outcome of a device request; ``content_type`` only where there is a payload."""
    body: dict[str, Any] = {"id": async_id, "status": status}
    if category is not None:
        body["error"] = category
    body["payload"] = encode(payload)
    if content_type is not None:
        body |= {"ct": content_type, "max-age": max_age_seconds or 0}
    return body | {"timestamp": at, "ep": device_id, "original-ep": endpoint_name, "path": path}


def notification(
    *,
    device_id: str,
    endpoint_name: str,
    path: str,
    payload: bytes,
    content_type: str,
    max_age_seconds: int | None,
    changed_at: Instant,
) -> dict[str, Any]:
    """An observation event, with the device's time of the change."""
    return {
        "ep": device_id,
        "path": path,
        "ct": content_type,
        "payload": encode(payload),
        "max-age": max_age_seconds or 0,
        "timestamp": changed_at,
        "original-ep": endpoint_name,
    }


def registration(
    *,
    device_id: str,
    endpoint_name: str,
    endpoint_type: str,
    queue_mode: bool,
    resources: Iterable[tuple[str, str, str, bool]],
    at: Instant,
) -> dict[str, Any]:
    """A registration or its update; ``resources`` as path, resource type, content type, observable."""
    return {
        "ep": device_id,
        "original-ep": endpoint_name,
        "ept": endpoint_type,
        "q": queue_mode,
        "timestamp": at,
        "resources": [
            {"path": path, "rt": resource_type, "ct": content_type, "obs": observable}
            for path, resource_type, content_type, observable in resources
        ],
    }


def leaving(*, device_id: str, endpoint_name: str, at: Instant) -> dict[str, Any]:
    """A device that deregistered, or whose registration expired."""
    return {"ep": device_id, "original-ep": endpoint_name, "timestamp": at}
