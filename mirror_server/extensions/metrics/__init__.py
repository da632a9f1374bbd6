"""Metrics for Prometheus, at ``GET /metrics``: of requests, queues, the log, webhooks, and of other extensions."""

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
def build(services: Services) -> list[Metrics]:
    """The metrics of one server."""
    from mirror_server.extensions.metrics.metrics import Metrics

    return [Metrics(services)]


@extends
def blueprints() -> list[Blueprint]:
    """``GET /metrics``."""
    from mirror_server.extensions.metrics.views import routes

    return [routes]
