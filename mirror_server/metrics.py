"""What a Prometheus server is told: requests, queues, the log, webhooks, devices and how they are spoken with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror_server.devices.lwm2m.exchange import Counts
from mirror_server.notifications.log import NotificationLog
from mirror_server.store import history_maintenance
from mirror_server.store.database import Database
from mirror_server.store.history_maintenance import HistorySize
from mirror_server.store.statistics import measure

if TYPE_CHECKING:
    from mirror_server.devices.lwm2m.lwm2m import LwM2MLink, Statistics

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one server; several in one process do not mix.

    Args:
        database: Where the counts of stored things come from, at each scrape.
        log: Tells how many polls are open.
        is_leader: Tells whether this process holds the devices and channels.
        real_devices: Counts what goes on with real devices; ``None`` where none can come.
    """

    def __init__(
        self,
        database: Database,
        log: NotificationLog,
        is_leader: Callable[[], bool],
        real_devices: LwM2MLink | None = None,
    ) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._requests = Counter(
            "mirror_requests",
            "Answered requests.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "mirror_request_seconds",
            "Time from a request to its answer; for a long poll this is how long it was held.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        # To look for the metrics of a route by its labels takes as long as to count.
        self._of_route: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._registry.register(_State(database, log, is_leader))
        if real_devices is not None:
            self._registry.register(_RealDevices(real_devices))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note an answered request; ``route`` is the rule it matched, not its path, which would be endless."""
        found = self._of_route.get((method, route, status))
        if found is None:
            found = self._requests.labels(method, route, str(status)), self._seconds.labels(method, route)
            self._of_route[method, route, status] = found
        counter, histogram = found
        counter.inc()
        histogram.observe(seconds)

    def watch(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Have a gauge whose value is asked for at each scrape."""
        Gauge(name, meaning, registry=self._registry).set_function(value)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _State(Collector):
    """Counted when asked for."""

    def __init__(self, database: Database, log: NotificationLog, is_leader: Callable[[], bool]) -> None:
        self._database = database
        self._log = log
        self._is_leader = is_leader

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._database.read() as session:
            found = measure(session)
            history = history_maintenance.measure(session)
        devices = GaugeMetricFamily("mirror_devices", "Devices by state.", labels=["state"])
        devices.add_metric(["registered"], found.registered_devices)
        devices.add_metric(["deregistered"], found.deregistered_devices)
        yield devices
        for name, meaning, value in (
            ("mirror_leader", "1 for the process that holds the devices and channels.", int(self._is_leader())),
            ("mirror_on_duty", "The same as mirror_leader, under its earlier name.", int(self._is_leader())),
            ("mirror_open_polls", "Long polls, event streams and websockets that are held.", self._log.open_polls),
            ("mirror_waiting_device_requests", "Device requests without an answer yet.", found.waiting_requests),
            (
                "mirror_longest_device_queue",
                "Waiting requests of the device with most.",
                found.longest_queue,
            ),
            ("mirror_store_queue", "Changes that wait to be stored.", self._database.count_waiting()),
            ("mirror_notification_log_entries", "Entries in all notification logs.", found.log_entries),
            ("mirror_notification_log_bytes", "Size of all notification logs.", found.log_bytes),
            ("mirror_webhooks", "Registered webhooks.", found.webhooks),
            ("mirror_failing_webhooks", "Webhooks whose last call failed.", found.failing_webhooks),
            ("mirror_webhook_failures", "Calls that failed since each webhook's last success.", found.webhook_failures),
            ("mirror_webhook_backlog_entries", "Log entries that webhooks have not taken yet.", found.webhook_backlog),
        ):
            yield GaugeMetricFamily(name, meaning, value)
        yield from _kept(history)


def _kept(history: HistorySize) -> Iterator[GaugeMetricFamily]:
    rows = GaugeMetricFamily("mirror_history_rows", "Rows of the history by place.", labels=["place"])
    rows.add_metric(["tail"], history.tail_rows)
    rows.add_metric(["segments"], history.segment_rows)
    rows.add_metric(["archive"], history.archive_rows)
    yield rows
    sizes = GaugeMetricFamily("mirror_history_bytes", "Size of the compressed history by place.", labels=["place"])
    sizes.add_metric(["segments"], history.segment_bytes)
    sizes.add_metric(["archive"], history.archive_bytes)
    yield sizes


class _RealDevices(Collector):
    """What is counted of real devices; nothing while this process does not listen to them."""

    def __init__(self, link: LwM2MLink) -> None:
        self._link = link

    def collect(self) -> Iterator[Metric]:
        found = self._link.statistics()
        if found is None:
            return
        yield from _spoken(found)
        yield from _carried(found.messages)


def _spoken(found: Statistics) -> Iterator[Metric]:
    """What devices and the mirror say to each other, by LwM2M."""
    told, heard = found.registrations, found.exchanges
    yield GaugeMetricFamily("mirror_lwm2m_devices", "Real devices that are registered.", found.devices)
    yield _counter(
        "mirror_lwm2m_registrations",
        "What came of what devices sent to register.",
        "outcome",
        {
            "registered": told.registrations,
            "updated": told.updates,
            "deregistered": told.deregistrations,
            "refused": told.refused,
        },
    )
    yield _counter(
        "mirror_lwm2m_notifications",
        "Notifications of devices, those that cannot be read and those of no known observation apart.",
        "outcome",
        {
            "taken": heard.notifications - heard.unreadable_notifications,
            "unreadable": heard.unreadable_notifications,
            "unknown": heard.unknown_notifications,
        },
    )
    yield CounterMetricFamily(
        "mirror_lwm2m_failed_exchanges", "Requests to devices that had no answer.", heard.failed_exchanges
    )
    yield CounterMetricFamily(
        "mirror_lwm2m_unreadable_answers", "Answers of devices that cannot be read.", heard.unreadable_answers
    )


def _carried(sent: Counts) -> Iterator[Metric]:
    """What carries it: CoAP and DTLS."""
    yield GaugeMetricFamily("mirror_coap_sessions", "DTLS sessions that are open.", sent.sessions)
    yield _messages(sent)
    yield _counter(
        "mirror_coap_handshakes",
        "DTLS handshakes.",
        "outcome",
        {"done": sent.handshakes, "failed": sent.handshake_failures},
    )
    for name, meaning, count in (
        ("mirror_coap_retransmissions", "CoAP messages that were sent again.", sent.retransmissions),
        ("mirror_coap_duplicates", "CoAP messages that came again.", sent.duplicates),
        ("mirror_coap_unanswered", "Requests that were given up.", sent.unanswered),
        ("mirror_coap_unreachable", "Messages that an address did not take.", sent.unreachable),
        ("mirror_coap_refused", "Requests refused before anybody looked at them.", sent.refused),
        ("mirror_coap_dropped", "Datagrams that led to nothing, those that the kernel dropped included.", sent.dropped),
    ):
        yield CounterMetricFamily(name, meaning, count)


def _messages(counts: Counts) -> CounterMetricFamily:
    family = CounterMetricFamily(
        "mirror_coap_messages", "CoAP messages, each once, however often it came or went.", labels=["direction", "kind"]
    )
    for direction, kind, count in (
        ("received", "request", counts.requests_received),
        ("received", "response", counts.responses_received),
        ("received", "notification", counts.notifications_received),
        ("received", "acknowledgement", counts.acknowledgements_received),
        ("received", "reset", counts.resets_received),
        ("sent", "request", counts.requests_sent),
        ("sent", "response", counts.responses_sent),
        ("sent", "acknowledgement", counts.acknowledgements_sent),
        ("sent", "reset", counts.resets_sent),
    ):
        family.add_metric([direction, kind], count)
    return family


def _counter(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, meaning, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
