"""Metrics for Prometheus at ``GET /metrics``: requests, queues, logs, webhooks, and metrics of other extensions."""

# Read ``metrics`` first.

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint

    from mirror_server.extensions.metrics.metrics import Metrics
    from mirror_server.server import Services


@extends
def needs() -> list[str]:
    """Return the package that this extension needs."""
    return ["prometheus_client"]


@extends
def build(services: Services) -> list[Metrics]:
    """Build the metrics of one server."""
    from mirror_server.extensions.metrics.metrics import Metrics

    return [Metrics(services)]


@extends
def blueprints() -> list[Blueprint]:
    """Return the route of the metrics."""
    from mirror_server.extensions.metrics.views import routes

    return [routes]
