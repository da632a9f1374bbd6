# Made from async_callback_reader.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""A reader of the entries that a webhook received. It reads missing entries from the service's log."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Self

from mirror_sdk._protocol.log_reader import LogReader, Send
from mirror_sdk._protocol.operations import get_callback
from mirror_sdk.errors import MirrorError
from mirror_sdk.webhook import registration
from mirror_sdk.webhook.inbox import CallbackInbox
from mirror_sdk.webhook.registration import RegisteredWebhook
from mirror_sdk.wire.log_entries import NOTHING, Batch, Gap


class CallbackReader(LogReader):
    """A reader of a :class:`~mirror_sdk.CallbackInbox` with its own position.

    If entries are missing, or if none arrive, the reader reads the service's log instead. It therefore loses no entry
    while another program has replaced the webhook.

    Args:
        inbox: The inbox with the entries that the webhook received.
        webhook: The registration of the webhook.
        send: A function that sends the requests for the log and the registration.
        position: The number of the entry to start after. The default is the newest entry.
    """

    def __init__(
        self, inbox: CallbackInbox, webhook: RegisteredWebhook, send: Send, position: int | None = None
    ) -> None:
        super().__init__(send, after=inbox.last if position is None else position)
        self.webhook: RegisteredWebhook = webhook
        self._inbox = inbox
        self._registration = inbox.registration
        self._has_log = webhook.log_end is not None

    def at(self, position: int | None) -> Self:
        """Return a separate reader of the same inbox that starts after this position."""
        return type(self)(self._inbox, self.webhook, self._send, position)

    def skip_entry(self, seq: int | None) -> bool:  # noqa: ARG002 - the signature of all readers
        """Return ``False``, because the webhook also delivers entries that arrived with a 202."""
        return False

    def go_to_end(self, within_seconds: float = math.inf) -> None:  # noqa: ARG002 - the signature of all readers
        """Move to the newest entry."""
        self.position: int | None = max(self._after, self._inbox.last)

    def read(self, hold_seconds: float, within_seconds: float = math.inf) -> Batch:
        """Wait up to ``hold_seconds`` for entries after the position.

        Raises:
            ChannelGone: Another program replaced the webhook, and the service has no log.
            MirrorError: The log could not be read, and a retry would not help.
        """
        if self.webhook.is_replaced and self._has_log:
            return self._read_log(hold_seconds, within_seconds)
        # After a silence, the log is read, because it may contain entries that the webhook did not receive.
        wait_seconds = min(hold_seconds, registration.SILENCE_SECONDS)
        batch = self._without_earlier_gap(self._inbox.wait(self._after, wait_seconds))
        is_silent = batch.seq is None
        if not is_silent and (batch.gap is None or not self._has_log):
            self.position = batch.seq
            return batch
        has_log = self._has_log
        batch = self._read_log(0, within_seconds) if has_log else NOTHING
        if is_silent and (batch.entries or not has_log):
            self._check_registration()
        return batch

    @property
    def _after(self) -> int:
        return self.position or 0

    @property
    def _start(self) -> int:
        """The number after which all entries are expected, because the webhook was registered at that time."""
        first = self._inbox.first_of(self._registration)
        return (self.webhook.log_end or 0) if first is None else first - 1

    def _without_earlier_gap(self, batch: Batch) -> Batch:
        """Remove the entries before the registration of the webhook from a gap."""
        gap = batch.gap
        if gap is None or gap.first_seq is None or gap.last_seq is None:
            return batch
        first = max(gap.first_seq, self._start + 1)
        return replace(batch, gap=Gap(first, gap.last_seq) if first <= gap.last_seq else None)

    def _read_log(self, hold_seconds: float, within_seconds: float) -> Batch:
        before = self._after
        # Entries before the registration of the webhook are not expected.
        self.position = max(before, self._start)
        batch = NOTHING
        try:
            batch = super().read(hold_seconds, within_seconds)
        finally:
            if batch.seq is None:
                self.position = before
        # After a reset of the log, its numbers are unrelated to those of the received entries.
        self._has_log = batch.gap != Gap(None, None)
        return batch

    def _check_registration(self) -> None:
        try:
            found = self._send(get_callback())
        except MirrorError:
            return  # the next silence repeats this check
        self.webhook.note(found)
