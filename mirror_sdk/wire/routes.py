"""All paths of the interface, and the headers of its extensions. Source: wire.md 1-10."""

from __future__ import annotations

DEVICE_OBJECT = "/v3/devices/{device_id}/echo"
ACKNOWLEDGEMENTS = "/v3/devices/{device_id}/echo/acknowledgements"
SNAPSHOT = "/v3/device-echo"
SNAPSHOT_RANGES = "/v3/device-echo/ranges"
HISTORY = "/v3/device-echo/history"
DEVICES = "/v3/devices"
DEVICE = "/v3/devices/{device_id}"
DEVICE_CONNECTION = "/v3/devices/{device_id}/connection"
DEVICE_CONTACTS = "/v3/devices/{device_id}/contacts"
DEVICE_QUERIES = "/v3/device-queries"
DEVICE_QUERY = "/v3/device-queries/{query_id}"
DEVICE_EVENTS = "/v3/device-events"
DEVICE_EVENT = "/v3/device-events/{event_id}"
DEVICE_LOG = "/v3/devicelog"
DEVICE_LOG_ENTRY = "/v3/devicelog/{event_id}"
ENDPOINTS = "/v2/endpoints"
ENDPOINT_RESOURCES = "/v2/endpoints/{device_id}"
RESOURCE = "/v2/endpoints/{device_id}{path}"
LIMITS = "/v2/limits"
REST_VERSIONS = "/rest-versions"
WAITING_REQUESTS = "/v2/device-requests"
DEVICE_REQUESTS = "/v2/device-requests/{device_id}"
PRESUBSCRIPTIONS = "/v2/subscriptions"
DEVICE_SUBSCRIPTIONS = "/v2/subscriptions/{device_id}"
SUBSCRIPTION = "/v2/subscriptions/{device_id}{path}"
PULL = "/v2/notification/pull"
CALLBACK = "/v2/notification/callback"
WEBSOCKET = "/v2/notification/websocket"
WEBSOCKET_CONNECT = "/v2/notification/websocket-connect"
EVENTS = "/v2/notification/events"
CHANNEL = "/v2/notification/channel"
ACCESS_KEY = "/v3/api-keys/me"
HEALTH = "/healthz"
READINESS = "/readyz"
METRICS = "/metrics"
DESCRIPTION = "/openapi.json"
PAGE = "/"
PAGE_FILE = "/page/{file}"
REFERENCE = "/reference"
REFERENCE_FILE = "/reference/{file}"
SIMULATOR_DEVICES = "/sim/v1/devices"
SIMULATOR_DEVICE = "/sim/v1/devices/{device_id}"
SIMULATOR_RESOURCE = "/sim/v1/devices/{device_id}/resources{path}"
SIMULATOR_REGISTRATION = "/sim/v1/devices/{device_id}/registration"
SIMULATOR_CLOCK = "/sim/v1/clock"

NEWEST_CONNECT = "/v2"
"""The version that is assumed for paths beginning with :data:`UNVERSIONED`: the newest one, as in the public API."""
UNVERSIONED = ("/subscriptions", "/notification")
"""The beginnings of paths that older programs request without a version."""

CURSOR_HEADER = "Mirror-Cursor"
GAP_HEADER = "Mirror-Gap"
TIME_HEADER = "Mirror-Time"
MAX_SEQ_DIGITS = 18
"""The maximum number of digits in the number of an entry. No log is longer, and all tables can store such numbers."""
TOTAL_HEADER = "Mirror-Total"
SUBSCRIPTION_HEADER = "Mirror-Subscription"
REQUESTED_AT_HEADER = "Mirror-Requested-At"
EXPIRES_AT_HEADER = "Mirror-Expires-At"
REQUEST_ID_HEADER = "X-Request-ID"
PREFER_HEADER = "Prefer"
PREFERENCE_APPLIED_HEADER = "Preference-Applied"

MAX_HOLD_SECONDS = 55
DEFAULT_HOLD_SECONDS = 25


def unversioned(path: str) -> str | None:
    """Return the other name of a path, which has no version, or ``None`` if it has no other name."""
    name = path.removeprefix(NEWEST_CONNECT)
    return name if name != path and is_unversioned(name) else None


def is_unversioned(path: str) -> bool:
    """Return whether a path, without a slash at its end, is a path without a version."""
    return path.startswith(UNVERSIONED) and any(path == name or path.startswith(f"{name}/") for name in UNVERSIONED)
