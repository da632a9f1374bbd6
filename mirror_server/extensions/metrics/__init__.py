"""Metrics for Prometheus at ``GET /metrics``: requests, queues, logs, webhooks, and metrics of other extensions.

Read them with a key that has the scope ``admin``::

    curl -H "Authorization: Bearer $ADMIN_KEY" "$API_HOST/metrics"

They contain:

- Requests and their durations by route. Durations include the wait for a device if ``Prefer: wait`` requested it.
- Pending device requests, open polls (including streams and websockets), connections, and unread bytes of clients.
- Size of the notification logs and of the history (``mirror_history_rows``, ``mirror_history_bytes``).
- Webhooks and their failures, and devices by state.
- Real devices (``mirror_lwm2m_...``, ``mirror_coap_...``): registrations, messages by kind, retransmissions, failed
  handshakes, sessions.
"""

# Start reading with ``metrics``.

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint

    from mirror_server.extensions.metrics.metrics import Metrics
    from mirror_server.server import Services


@extends
def needs() -> list[str]:
    """Return the packages of this extension."""
    return ["prometheus_client"]


@extends
def help_topics() -> dict[str, str]:
    """Return the help about metrics."""
    return {"metrics": __name__}


@extends
def build(services: Services) -> list[Metrics]:
    """Return the metrics of one server."""
    from mirror_server.extensions.metrics.metrics import Metrics

    return [Metrics(services)]


@extends
def blueprints() -> list[Blueprint]:
    """Return the routes."""
    from mirror_server.extensions.metrics.views import routes

    return [routes]
