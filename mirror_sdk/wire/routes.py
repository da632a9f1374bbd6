"""Every path of the interface and the headers of its extensions. Source: wire.md 1-8."""

from __future__ import annotations

DEVICE_OBJECT = "/v3/devices/{device_id}/echo"
SNAPSHOT = "/v3/device-echo"
SNAPSHOT_RANGES = "/v3/device-echo/ranges"
DEVICES = "/v3/devices"
DEVICE = "/v3/devices/{device_id}"
ENDPOINT_RESOURCES = "/v2/endpoints/{device_id}"
WAITING_REQUESTS = "/v2/device-requests"
DEVICE_REQUESTS = "/v2/device-requests/{device_id}"
PRESUBSCRIPTIONS = "/v2/subscriptions"
DEVICE_SUBSCRIPTIONS = "/v2/subscriptions/{device_id}"
SUBSCRIPTION = "/v2/subscriptions/{device_id}{path}"
PULL = "/v2/notification/pull"
CALLBACK = "/v2/notification/callback"
EVENTS = "/v2/notification/events"
CHANNEL = "/v2/notification/channel"
HEALTH = "/healthz"
READINESS = "/readyz"
METRICS = "/metrics"
DESCRIPTION = "/openapi.json"
PAGE = "/"
PAGE_FILE = "/page/{file}"
BENCH_DEVICES = "/sim/v1/devices"
BENCH_DEVICE = "/sim/v1/devices/{device_id}"
BENCH_RESOURCE = "/sim/v1/devices/{device_id}/resources{path}"
BENCH_REGISTRATION = "/sim/v1/devices/{device_id}/registration"
BENCH_CLOCK = "/sim/v1/clock"

CURSOR_HEADER = "Mirror-Cursor"
GAP_HEADER = "Mirror-Gap"
TOTAL_HEADER = "Mirror-Total"
SUBSCRIPTION_HEADER = "Mirror-Subscription"
REQUEST_ID_HEADER = "X-Request-ID"

MAX_HOLD_SECONDS = 55
DEFAULT_HOLD_SECONDS = 25
