"""Counts over the whole database, for those who watch over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirror_sdk.wire.entries import NUMBERS_LEFT_OUT
from mirror_server.core.instants import Instant
from mirror_server.store.extensions import EXTENSIONS
from mirror_server.store.session import Session


@dataclass(frozen=True, slots=True)
class Statistics:
    """How much there is of each thing at one moment."""

    registered_devices: int
    deregistered_devices: int
    waiting_requests: int
    longest_queue: int
    log_entries: int
    log_bytes: int
    webhooks: int
    failing_webhooks: int
    webhook_failures: int
    webhook_backlog: int


def measure(session: Session) -> Statistics:
    """Count. No statement reads a row for each notification."""
    registered, deregistered = _row(
        session, "SELECT count(*) FILTER (WHERE registered = 1), count(*) FILTER (WHERE registered = 0) FROM devices"
    )
    waiting, longest = _row(
        session,
        "SELECT coalesce(sum(length), 0), coalesce(max(length), 0) FROM"
        " (SELECT count(*) AS length FROM commands WHERE finished_at IS NULL GROUP BY device_id) AS queues",
    )
    entries, stored_bytes = _row(
        session,
        "SELECT coalesce(sum((last_seq + 1 - coalesce("
        "(SELECT min(seq) FROM notifications WHERE notifications.app_id = logs.app_id), last_seq + 1)) % :lost), 0),"
        " coalesce(sum(stored_bytes), 0) FROM logs",
        lost=NUMBERS_LEFT_OUT,
    )
    webhooks, failing, failures, backlog = _row(
        session,
        "SELECT count(*), count(*) FILTER (WHERE failures > 0), coalesce(sum(failures), 0),"
        " coalesce(sum((last_seq - position) % :lost), 0) FROM callbacks JOIN logs ON logs.app_id = callbacks.app_id",
        lost=NUMBERS_LEFT_OUT,
    )
    return Statistics(
        registered_devices=registered,
        deregistered_devices=deregistered,
        waiting_requests=waiting,
        longest_queue=longest,
        log_entries=entries,
        log_bytes=stored_bytes,
        webhooks=webhooks,
        failing_webhooks=failing,
        webhook_failures=failures,
        webhook_backlog=backlog,
    )


def newest_instant(session: Session) -> Instant | None:
    """The latest instant at which anything is stored to have happened; ``None`` where nothing is."""
    instant: Instant | None = session.scalar(
        "SELECT max(at) FROM (SELECT max(last_contact_at) AS at FROM devices"
        " UNION ALL SELECT max(requested_at) FROM commands WHERE finished_at IS NULL"
        " UNION ALL SELECT max(logged_at) FROM logs JOIN notifications"
        " ON notifications.app_id = logs.app_id AND seq = last_seq) AS found"
    )
    instants = [instant, *(extension.newest_instant(session) for extension in EXTENSIONS)]
    return max((each for each in instants if each is not None), default=None)


def _row(session: Session, statement: str, **parameters: Any) -> list[int]:
    row = session.row(statement, **parameters)
    assert row is not None  # noqa: S101 - an aggregate always has a row
    return [int(value) for value in row]
