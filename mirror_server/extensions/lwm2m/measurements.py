"""What is counted of real devices, as metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mirror_server.hooks import Measurement

if TYPE_CHECKING:
    from mirror_server.extensions.lwm2m.exchange import Counts
    from mirror_server.extensions.lwm2m.lwm2m import LwM2MLink, Statistics


def measure(link: LwM2MLink) -> Iterator[Measurement]:
    """All of it; nothing while this process does not listen to devices."""
    found = link.statistics()
    if found is not None:
        yield from _spoken(found)
        yield from _carried(found.messages)


def _spoken(found: Statistics) -> Iterator[Measurement]:
    """What devices and the mirror say to each other, by LwM2M."""
    told, heard = found.registrations, found.exchanges
    yield Measurement("mirror_lwm2m_devices", "Real devices that are registered.", found.devices)
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
    yield Measurement(
        "mirror_lwm2m_failed_exchanges",
        "Requests to devices that had no answer.",
        heard.failed_exchanges,
        is_count=True,
    )
    yield Measurement(
        "mirror_lwm2m_unreadable_answers",
        "Answers of devices that cannot be read.",
        heard.unreadable_answers,
        is_count=True,
    )


def _carried(sent: Counts) -> Iterator[Measurement]:
    """What carries it: CoAP and DTLS."""
    yield Measurement("mirror_coap_sessions", "DTLS sessions that are open.", sent.sessions)
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
        yield Measurement(name, meaning, count, is_count=True)


def _messages(counts: Counts) -> Measurement:
    sent_and_received = {
        ("received", "request"): counts.requests_received,
        ("received", "response"): counts.responses_received,
        ("received", "notification"): counts.notifications_received,
        ("received", "acknowledgement"): counts.acknowledgements_received,
        ("received", "reset"): counts.resets_received,
        ("sent", "request"): counts.requests_sent,
        ("sent", "response"): counts.responses_sent,
        ("sent", "acknowledgement"): counts.acknowledgements_sent,
        ("sent", "reset"): counts.resets_sent,
    }
    meaning = "CoAP messages, each once, however often it came or went."
    return Measurement("mirror_coap_messages", meaning, sent_and_received, ("direction", "kind"), is_count=True)


def _counter(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Measurement:
    by_label = {(value,): count for value, count in counts.items()}
    return Measurement(name, meaning, by_label, (label,), is_count=True)
