"""Metrics for Prometheus, at ``GET /metrics``: of requests, queues, the log, webhooks, and of other extensions.

They need a key with the scope ``admin``: requests and their times by route (with the wait for a device where
``Prefer: wait`` asked for it), waiting device requests, open polls (streams and websockets with them), connections,
what clients leave unread, size of the notification logs and of the history (``mirror_history_rows``,
``mirror_history_bytes``), webhooks and their failures, devices by state; of real devices (``mirror_lwm2m_...``,
``mirror_coap_...``) registrations, messages by kind, retransmissions, handshakes that failed, sessions.
"""

# To read it begin with ``metrics``.

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint

    from mirror_server.extensions.metrics.metrics import Metrics
    from mirror_server.server import Services


@extends
def needs() -> list[str]:
    """What writes the exposition."""
    return ["prometheus_client"]


@extends
def help_topics() -> dict[str, str]:
    """What is measured."""
    return {"metrics": __name__}


@extends
def build(services: Services) -> list[Metrics]:
    """The metrics of one server."""
    from mirror_server.extensions.metrics.metrics import Metrics

    return [Metrics(services)]


@extends
def blueprints() -> list[Blueprint]:
    """``GET /metrics``."""
    from mirror_server.extensions.metrics.views import routes

    return [routes]
