"""Metrics for Prometheus: requests, queues, the log, webhooks, devices, and the metrics of extensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror_sdk.wire.log_entries import NUMBERS_LEFT_OUT
from mirror_server.hooks import SERVER, Measurement, extends, require_distinct

if TYPE_CHECKING:
    from flask import Response

    from mirror_server.server import Services
    from mirror_server.store.session import Session

CONTENT_TYPE = CONTENT_TYPE_LATEST

_DESCRIPTIONS = {
    "mirror_leader": "1 for the process that runs the devices and channels.",
    "mirror_on_duty": "The earlier name of mirror_leader.",
    "mirror_open_polls": "Open long polls, event streams and websockets.",
    "mirror_store_queue": "Changes that wait to be stored.",
    "mirror_devices": "Devices by state.",
    "mirror_waiting_device_requests": "Device requests that have no response yet.",
    "mirror_longest_device_queue": "Pending requests of the device that has the most.",
    "mirror_notification_log_entries": "Entries in all notification logs.",
    "mirror_notification_log_bytes": "Size of all notification logs.",
    "mirror_webhooks": "Registered webhooks.",
    "mirror_failing_webhooks": "Webhooks whose last call failed.",
    "mirror_webhook_failures": "Calls that failed since each webhook's last success.",
    "mirror_webhook_backlog_entries": "Log entries that were not delivered to webhooks yet.",
}
"""The metrics of the server, without those of extensions and of requests."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one server. Several servers in one process have separate metrics."""

    def __init__(self, services: Services) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._requests = Counter(
            "mirror_requests",
            "Completed requests.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "mirror_request_seconds",
            "Time from a request to its response; for a long poll this includes the wait.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        # Cached, because finding the metrics of a route by its labels would take as long as counting.
        self._of_route: dict[tuple[tuple[str, str], int], tuple[Counter, Histogram]] = {}
        self._services = services
        self._own = [metric.name for metric in self._registry.collect()]
        self._registry.register(_State(services))

    @extends
    def started(self) -> None:
        """Check that no two metrics have the same name.

        Raises:
            CannotServe: Two metrics have the same name.
        """
        services = self._services
        measured = services.extensions.results("measurements")
        # The values of the server's metrics are not needed, and counting a million devices takes long.
        names = [(name, SERVER) for name in (*self._own, *_DESCRIPTIONS)]
        names += [(each.name, owner) for owner, measurements in measured for each in measurements]
        require_distinct((f"metric {name}", owner) for name, owner in names)

    @extends
    def response_ready(
        self,
        environ: dict[str, Any],  # noqa: ARG002 - the signature of the hook
        response: Response,
        route: tuple[str, str],
        seconds: float,
    ) -> None:
        """Count a request, and record its duration."""
        status = response.status_code
        found = self._of_route.get((route, status))
        if found is None:
            found = self._requests.labels(*route, str(status)), self._seconds.labels(*route)
            self._of_route[route, status] = found
        counter, histogram = found
        counter.inc()
        histogram.observe(seconds)

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _State(Collector):
    """A collector of metrics that are counted at each scrape."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        for measurement in chain(own_of(self._services), *self._services.measurements()):
            yield _family(measurement)


def own_of(services: Services) -> list[Measurement]:
    """Return the current metrics of the server, without the metrics of extensions and of requests."""
    with services.database.read() as session:
        stored = list(counted(session))
    leads = int(services.is_leader())
    return [
        *stored,
        _own("mirror_leader", leads),
        _own("mirror_on_duty", leads),
        _own("mirror_open_polls", services.log.open_polls),
        _own("mirror_store_queue", services.database.count_waiting()),
    ]


def _own(name: str, value: float | Mapping[Any, float], labels: tuple[str, ...] = ()) -> Measurement:
    return Measurement(name, _DESCRIPTIONS[name], value, labels)


def _family(measurement: Measurement) -> Metric:
    kind = CounterMetricFamily if measurement.is_count else GaugeMetricFamily
    if not isinstance(measurement.value, Mapping):
        return kind(measurement.name, measurement.description, measurement.value)
    family = kind(measurement.name, measurement.description, labels=measurement.labels)
    for labels, value in measurement.value.items():
        family.add_metric(labels, value)
    return family


def counted(session: Session) -> Iterator[Measurement]:
    """Yield the number of stored objects of each kind. No statement reads a row for each notification."""
    registered, deregistered = _row(
        session, "SELECT count(*) FILTER (WHERE registered = 1), count(*) FILTER (WHERE registered = 0) FROM devices"
    )
    states = {("registered",): registered, ("deregistered",): deregistered}
    yield _own("mirror_devices", states, ("state",))
    waiting, longest = _row(
        session,
        "SELECT coalesce(sum(length), 0), coalesce(max(length), 0) FROM"
        " (SELECT count(*) AS length FROM commands WHERE finished_at IS NULL GROUP BY device_id) AS queues",
    )
    yield _own("mirror_waiting_device_requests", waiting)
    yield _own("mirror_longest_device_queue", longest)
    # A restored log skips ``:lost`` numbers, which belong to no entries.
    entries, stored_bytes = _row(
        session,
        "SELECT coalesce(sum((last_seq + 1 - coalesce("
        "(SELECT min(seq) FROM notifications WHERE notifications.app_id = logs.app_id), last_seq + 1)) % :lost), 0),"
        " coalesce(sum(stored_bytes), 0) FROM logs",
        lost=NUMBERS_LEFT_OUT,
    )
    yield _own("mirror_notification_log_entries", entries)
    yield _own("mirror_notification_log_bytes", stored_bytes)
    webhooks, failing, failures, backlog = _row(
        session,
        "SELECT count(*), count(*) FILTER (WHERE failures > 0), coalesce(sum(failures), 0),"
        " coalesce(sum((last_seq - position) % :lost), 0) FROM callbacks JOIN logs ON logs.app_id = callbacks.app_id",
        lost=NUMBERS_LEFT_OUT,
    )
    yield _own("mirror_webhooks", webhooks)
    yield _own("mirror_failing_webhooks", failing)
    yield _own("mirror_webhook_failures", failures)
    yield _own("mirror_webhook_backlog_entries", backlog)


def _row(session: Session, statement: str, **parameters: Any) -> list[int]:
    row = session.row(statement, **parameters)
    assert row is not None  # noqa: S101 - an aggregate always has a row
    return [int(value) for value in row]
