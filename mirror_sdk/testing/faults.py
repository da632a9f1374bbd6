"""Faults that a test sets: between client and server, inside devices, and of the server itself.

Everything is counted and follows the mirror's clock, so a test sees the same on every run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import httpx

from mirror_sdk.naming import DeviceLike
from mirror_sdk.testing.clock import Duration, seconds_of
from mirror_sdk.testing.fault import (
    ALTER,
    ENTRY_LISTS,
    EntryFault,
    EntryKind,
    EntryVerb,
    ExchangeFault,
    ExchangePart,
    ExchangeVerb,
    Fault,
)
from mirror_sdk.wire.simulator import AnswerMode


@dataclass(slots=True)
class Encounter:
    """What becomes of one exchange."""

    is_request_lost: bool = False
    is_answer_lost: bool = False
    repeats: int = 0
    late_seconds: float = 0.0


@dataclass(slots=True)
class _Late:
    """Tells until when the notification channel brings nothing."""

    fault: Fault
    until_at: datetime


@dataclass(slots=True)
class _Active:
    exchanges: list[ExchangeFault] = field(default_factory=list)
    entries: list[EntryFault] = field(default_factory=list)
    late: list[_Late] = field(default_factory=list)
    devices: list[Fault] = field(default_factory=list)
    silent: dict[str, Fault] = field(default_factory=dict)


class Faults:
    """Sets faults; see the methods. Those of entries act on polls that keep their own position, as all clients here do.

    Args:
        now: The mirror's present.
        set_answer: Says how a device is to answer.
        id_of: Tells the id of a device, however it is named.
        restart_server: Stops the server and starts it again.
        patience_seconds: How long the server waits for the answer of a device.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        set_answer: Callable[[str, AnswerMode], None],
        id_of: Callable[[DeviceLike], str],
        restart_server: Callable[[], None],
        patience_seconds: float,
    ) -> None:
        self.patience_seconds = patience_seconds
        self._now = now
        self._set_answer = set_answer
        self._id_of = id_of
        self._restart_server = restart_server
        self._changed = threading.Condition()
        self._active = _Active()

    # Between client and server

    def drop(
        self,
        what: ExchangePart | EntryKind,
        *,
        times: int | None = 1,
        path: str | None = None,
        method: str | None = None,
        device: DeviceLike | None = None,
    ) -> Fault:
        """Lose something on its way.

        Args:
            what: A ``request`` never arrives (the client sees a failed connection); an ``answer`` is lost after the
                server did what was asked; a ``notification`` (the event of an observation) or an ``async-response``
                is missing in its message, and nobody is told of the loss.
            times: How many of them; ``None`` for all until the fault is ended.
            path: Only of this path, where ``*`` at the end matches anything: of requests and answers it is the path
                of the URL (``/v3/*``), of notifications the resource path.
            method: Of requests and answers, only those with this HTTP method.
            device: Of notifications, only those of this device.

        Raises:
            ValueError: A condition does not go with ``what``.
        """
        _check_word(what, "request", "answer", *ENTRY_LISTS.values())
        match what:
            case "request" | "answer":
                return self._set_exchange("drop", what, times=times, path=path, method=method, device=device)
            case _:
                return self._set_entry("drop", what, times=times, path=path, method=method, device=device)

    def duplicate(
        self,
        what: Literal["request"] | EntryKind,
        *,
        times: int | None = 1,
        path: str | None = None,
        method: str | None = None,
        device: DeviceLike | None = None,
    ) -> Fault:
        """Let something arrive twice: a ``request`` at the server, another word of :meth:`drop` at the client.

        Arguments and errors as for :meth:`drop`.
        """
        _check_word(what, "request", *ENTRY_LISTS.values())
        if what == "request":
            return self._set_exchange("duplicate", what, times=times, path=path, method=method, device=device)
        return self._set_entry("duplicate", what, times=times, path=path, method=method, device=device)

    def delay(
        self,
        what: Literal["answer", "notification"],
        by: Duration,
        *,
        times: int | None = 1,
        path: str | None = None,
        method: str | None = None,
    ) -> Fault:
        """Let something arrive late, by the mirror's clock.

        A late ``answer`` moves the clock itself: the time it takes passes for the server and its devices. Longer than
        the client's time-out, it is a time-out. With ``notification`` the channel brings nothing until the clock was
        advanced by so much, and then all of it, in order; it has no other arguments.

        Args:
            what: ``answer`` or ``notification``.
            by: Seconds, ``"5min"`` or a timedelta.
            times: How many answers; ``None`` for all until the fault is ended.
            path: Only answers to this path of the URL, where ``*`` at the end matches anything.
            method: Only answers to this HTTP method.

        Raises:
            ValueError: ``by`` is no duration, or none at all, or a condition does not go with ``what``.
        """
        _check_word(what, "answer", "notification")
        late_seconds = seconds_of(by)
        if not late_seconds > 0:
            raise ValueError(f"by={by!r} is no delay; give more than 0 seconds")
        if what == "answer":
            return self._set_exchange("delay", what, times, path, method, None, late_seconds)
        _refuse(what, path=path, method=method)
        fault = Fault(None, self.wake)
        with self._changed:
            self._active.late.append(_Late(fault, self._now() + timedelta(seconds=late_seconds)))
        return fault

    def reorder(self, count: int = 2, *, path: str | None = None, device: DeviceLike | None = None) -> Fault:
        """Let the next notifications arrive in reverse order.

        Until all of them are there, the channel brings nothing.

        Args:
            count: How many, at least 2.
            path: Only of this resource path, where ``*`` at the end matches anything.
            device: Only of this device.

        Raises:
            ValueError: ``count`` is too small.
        """
        if count < 2:
            raise ValueError(f"count={count} leaves nothing to reorder; give 2 or more")
        return self._set_entry("reorder", "notification", times=count, path=path, method=None, device=device)

    # Devices, server

    def reject(self, device: DeviceLike) -> Fault:
        """Have a device refuse all it is asked, until the fault is ended (``WriteRejected`` in the client)."""
        return self._set_device(device, "reject")

    def silence(self, device: DeviceLike) -> Fault:
        """Have a device answer nothing, until the fault is ended.

        A request to it fails when the clock was advanced past the server's patience (``DeviceUnavailable``). A call
        that waits for the outcome, such as ``client.read_value``, advances the clock by that patience itself, once for
        each attempt, and takes no real time.
        """
        fault = self._set_device(device, "silent")
        with self._changed:
            self._active.silent[self._id_of(device)] = fault
        return fault

    def restart_server(self) -> None:
        """Stop the server and start it again on the same database; open polls lose their connection."""
        self._restart_server()

    def clear(self) -> None:
        """End all faults, and forget what became of entries: who reads them again gets them as they are."""
        with self._changed:
            active, self._active = self._active, _Active()
        for fault in [*active.exchanges, *active.entries, *active.devices, *(late.fault for late in active.late)]:
            fault.end()

    # For the transport

    def meet(self, request: httpx.Request) -> Encounter:
        """What becomes of this exchange; counts the faults that act on it."""
        encounter = Encounter()
        with self._changed:
            for fault in self._active.exchanges:
                if fault.takes(request):
                    encounter.is_request_lost |= (fault.verb, fault.part) == ("drop", "request")
                    encounter.is_answer_lost |= (fault.verb, fault.part) == ("drop", "answer")
                    encounter.repeats += fault.verb == "duplicate"
                    encounter.late_seconds += fault.late_seconds
        return encounter

    @property
    def silent_devices(self) -> list[str]:
        """The ids of the devices that answer nothing."""
        with self._changed:
            return [device_id for device_id, fault in self._active.silent.items() if fault.is_live]

    def is_channel_late(self) -> bool:
        """Whether the notification channel brings nothing now."""
        with self._changed:
            now = self._now()
            return any(late.fault.is_live and now < late.until_at for late in self._active.late)

    def is_incomplete(self, message: Mapping[str, Any]) -> bool:
        """Whether a message has to wait for notifications that are to arrive before those in it."""
        with self._changed:
            waiting = [fault for fault in self._active.entries if fault.verb == "reorder"]
            for fault in waiting:
                taken = [entry for entry in message.get("notifications", []) if fault.takes("notification", entry)]
                if taken and fault.is_live:
                    return True
        return False

    def alter(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A notification message as it arrives."""
        altered = dict(message)
        with self._changed:
            for key, kind in ENTRY_LISTS.items():
                if key in altered:
                    altered[key] = self._alter_entries(kind, altered[key])
        return {key: entries for key, entries in altered.items() if entries}

    def wake(self) -> None:
        """Let polls that wait for the channel look again."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait, at most so long, until the clock moved or a fault ended."""
        with self._changed:
            if self.is_channel_late():
                self._changed.wait(seconds)

    def _alter_entries(self, kind: EntryKind, entries: list[Any]) -> list[Any]:
        altered = list(entries)
        for fault in self._active.entries:
            taken = [fault.takes(kind, entry) for entry in altered]
            altered = ALTER[fault.verb](fault, altered, taken)
        return altered

    def _set_exchange(
        self,
        verb: ExchangeVerb,
        part: ExchangePart,
        times: int | None,
        path: str | None,
        method: str | None,
        device: DeviceLike | None,
        late_seconds: float = 0.0,
    ) -> Fault:
        _refuse(part, device=device)
        fault = ExchangeFault(
            verb, part, times=times, path=path, method=method, late_seconds=late_seconds, on_end=self.wake
        )
        with self._changed:
            self._active.exchanges.append(fault)
        return fault

    def _set_entry(
        self,
        verb: EntryVerb,
        kind: EntryKind,
        times: int | None,
        path: str | None,
        method: str | None,
        device: DeviceLike | None,
    ) -> Fault:
        _refuse(kind, method=method)
        if kind == "async-response":
            _refuse(kind, path=path, device=device)
        device_id = None if device is None else self._id_of(device)
        fault = EntryFault(verb, kind, times=times, path=path, device_id=device_id, on_end=self.wake)
        with self._changed:
            self._active.entries.append(fault)
        return fault

    def _set_device(self, device: DeviceLike, answer: AnswerMode) -> Fault:
        device_id = self._id_of(device)
        self._set_answer(device_id, answer)
        fault = Fault(None, lambda: self._set_answer(device_id, "normal"))
        with self._changed:
            self._active.devices.append(fault)
        return fault


def _check_word(what: str, *known: str) -> None:
    if what not in known:
        raise ValueError(f"{what!r} is nothing this fault acts on; write {' or '.join(map(repr, known))}")


def _refuse(what: str, **conditions: object) -> None:
    """Refuse conditions that say nothing of this."""
    for name, value in conditions.items():
        if value is not None:
            raise ValueError(f"{name}={value!r} does not go with {what!r}; leave it out")
