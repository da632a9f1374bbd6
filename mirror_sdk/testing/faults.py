"""Faults that a test sets: between client and server, inside devices, and of the server itself.

Everything is counted and follows the mirror's clock, so a test sees the same on every run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

import httpx

from mirror_sdk.device_lookup import DeviceLike
from mirror_sdk.testing.clock import Duration, seconds_of
from mirror_sdk.testing.fault import Action, EntryTarget, Fault, Target
from mirror_sdk.wire.simulator import ResponseMode

ENTRY_LISTS: Mapping[str, EntryTarget] = {"notifications": "notification", "async-responses": "async-response"}

_CONDITIONS: Mapping[tuple[Action, Target], tuple[str, ...]] = {
    ("drop", "request"): ("path", "method"),
    ("drop", "response"): ("path", "method"),
    ("drop", "notification"): ("path", "device"),
    ("drop", "async-response"): (),
    ("duplicate", "request"): ("path", "method"),
    ("duplicate", "notification"): ("path", "device"),
    ("duplicate", "async-response"): (),
    ("delay", "response"): ("path", "method"),
    ("delay", "notification"): (),
    ("reorder", "notification"): ("path", "device"),
}
"""The available faults and the conditions of each."""


class Faults:
    """Injects faults into a mirror under test: in messages, in devices, and in the server.

    Faults in notifications only act on polls that send a position, as all clients of this package do.

    Args:
        now: Returns the mirror's current time.
        set_response_mode: Sets how a device responds.
        id_of: Returns the id of a device from its id, endpoint name or object.
        restart_server: Stops the server and starts it again.
        patience_seconds: The seconds that the server waits for the response of a device.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        set_response_mode: Callable[[str, ResponseMode], None],
        id_of: Callable[[DeviceLike], str],
        restart_server: Callable[[], None],
        patience_seconds: float,
    ) -> None:
        self.patience_seconds = patience_seconds
        self._now = now
        self._set_response_mode = set_response_mode
        self._id_of = id_of
        self._restart_server = restart_server
        self._changed = threading.Condition()
        self._active: list[Fault] = []

    # Between client and server

    def drop(
        self,
        target: Target,
        *,
        times: int | None = 1,
        path: str | None = None,
        method: str | None = None,
        device: DeviceLike | None = None,
    ) -> Fault:
        """Lose messages.

        Args:
            target: The kind of message. A ``request`` never arrives, and the client sees a failed connection. A
                ``response`` is lost after the server processed the request. A ``notification`` or an ``async-response``
                is removed from its message; the client sees no gap.
            times: The number of messages; ``None`` for all until you end the fault.
            path: Only messages with this path; ``*`` at the end matches anything. It is the path of the URL for
                requests and responses (``/v3/*``), and the resource path for notifications.
            method: Only requests and responses with this HTTP method.
            device: Only notifications of this device.

        Raises:
            ValueError: ``target`` is unknown, or cannot be combined with one of the conditions.
        """
        return self._add("drop", target, times=times, path=path, method=method, device=device)

    def duplicate(
        self,
        target: Literal["request"] | EntryTarget,
        *,
        times: int | None = 1,
        path: str | None = None,
        method: str | None = None,
        device: DeviceLike | None = None,
    ) -> Fault:
        """Deliver messages twice: a ``request`` to the server, other targets of :meth:`drop` to the client.

        Arguments and errors as for :meth:`drop`.
        """
        return self._add("duplicate", target, times=times, path=path, method=method, device=device)

    def delay(
        self,
        target: Literal["response", "notification"],
        by: Duration,
        *,
        times: int | None = 1,
        path: str | None = None,
        method: str | None = None,
    ) -> Fault:
        """Deliver messages late, by the mirror's clock.

        A late ``response`` itself advances the clock, for the server and its devices. If the delay exceeds the client's
        timeout, the client times out. With ``notification``, the channel delivers nothing until you have advanced the
        clock by the delay. Then it delivers everything in order.

        Args:
            target: ``response`` or ``notification``. For ``notification``, ``by`` is the only other argument.
            by: The delay: seconds, a string such as ``"5min"``, or a timedelta.
            times: The number of responses; ``None`` for all until you end the fault.
            path: Only responses to this path of the URL, where ``*`` at the end matches anything.
            method: Only responses to this HTTP method.

        Raises:
            ValueError: ``by`` is not a duration above 0, or ``target`` cannot be combined with one of the conditions.
        """
        delay_seconds = seconds_of(by)
        if not delay_seconds > 0:
            raise ValueError(f"by={by!r} must be more than 0 seconds")
        if target == "notification":
            until_at = self._now() + timedelta(seconds=delay_seconds)
            return self._add("delay", target, times=None, path=path, method=method, until_at=until_at)
        return self._add("delay", target, times=times, path=path, method=method, delay_seconds=delay_seconds)

    def reorder(self, count: int = 2, *, path: str | None = None, device: DeviceLike | None = None) -> Fault:
        """Deliver the next notifications in reverse order.

        The channel delivers nothing until there are ``count`` notifications.

        Args:
            count: The number of notifications, at least 2.
            path: Only notifications of this resource path; ``*`` at the end matches anything.
            device: Only notifications of this device.

        Raises:
            ValueError: ``count`` is too small.
        """
        if count < 2:
            raise ValueError(f"count={count} must be 2 or more")
        return self._add("reorder", "notification", times=count, path=path, device=device)

    # Devices, server

    def reject(self, device: DeviceLike) -> Fault:
        """Make a device reject all requests until you end the fault (``DeviceRequestRejected`` in the client)."""
        return self._set_device(device, "reject")

    def silence(self, device: DeviceLike) -> Fault:
        """Make a device stop responding until you end the fault.

        A request to the device fails (``DeviceUnavailable``) when the clock has advanced past the time that the server
        waits for a response. A call that waits for the result, such as ``client.read_value``, advances the clock by
        this time itself, once for each attempt, and takes no real time.
        """
        return self._set_device(device, "silent")

    def restart_server(self) -> None:
        """Stop the server and start it again on the same database; open polls lose their connection."""
        self._restart_server()

    def clear(self) -> None:
        """End all faults. The next reader receives the original entries, even those that a fault altered or dropped."""
        with self._changed:
            ended, self._active = self._active, []
        # Without the lock, since the fault of a device ends with a request to the server.
        for fault in ended:
            fault.end()

    # For the transport

    def acting_on(self, request: httpx.Request) -> list[Fault]:
        """Return the faults that act on this request or its response, and count them."""
        with self._changed:
            return [
                fault
                for fault in self._active
                if fault.target in {"request", "response"} and fault.acts_on_request(request)
            ]

    @property
    def silent_devices(self) -> list[str]:
        """The ids of the devices that do not respond."""
        with self._changed:
            silent = [fault for fault in self._active if fault.action == "silent" and fault.is_live]
            return [fault.device_id for fault in silent if fault.device_id is not None]

    def is_channel_late(self) -> bool:
        """Return whether the notification channel is delayed now."""
        with self._changed:
            now = self._now()
            return any(fault.is_live and fault.until_at and now < fault.until_at for fault in self._active)

    def is_incomplete(self, message: Mapping[str, Any]) -> bool:
        """Return whether a message has to wait for notifications that must arrive before its own."""
        entries = message.get("notifications", [])
        with self._changed:
            waiting = [fault for fault in self._active if fault.action == "reorder"]
            return any(any(fault.affected_entries(entries)) and fault.is_live for fault in waiting)

    def alter(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a notification message with all faults applied."""
        altered = dict(message)
        with self._changed:
            for key, target in ENTRY_LISTS.items():
                for fault in self._active:
                    if key in altered and fault.target == target:
                        altered[key] = fault.alter(altered[key])
        return {key: entries for key, entries in altered.items() if entries}

    def wake(self) -> None:
        """Wake polls that wait for the channel, so that they check it again."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until the clock was advanced or a fault ended, but not longer than ``seconds``."""
        with self._changed:
            # Checked again under the lock: otherwise a wake() since the last check would be missed.
            if self.is_channel_late():
                self._changed.wait(seconds)

    def _add(
        self,
        action: Action,
        target: Target,
        *,
        times: int | None,
        path: str | None = None,
        method: str | None = None,
        device: DeviceLike | None = None,
        delay_seconds: float = 0.0,
        until_at: datetime | None = None,
    ) -> Fault:
        if (action, target) not in _CONDITIONS:
            valid = " or ".join(repr(other) for verb, other in _CONDITIONS if verb == action)
            raise ValueError(f"{target!r} is not a target of {action}; use {valid}")
        for name, value in (("path", path), ("method", method), ("device", device)):
            if value is not None and name not in _CONDITIONS[action, target]:
                raise ValueError(f"{name}={value!r} cannot be combined with {target!r}; omit {name}=")
        device_id = None if device is None else self._id_of(device)
        fault = Fault(action, target, times, self.wake, path or "*", method, device_id, delay_seconds, until_at)
        with self._changed:
            self._active.append(fault)
        return fault

    def _set_device(self, device: DeviceLike, action: Literal["reject", "silent"]) -> Fault:
        device_id = self._id_of(device)
        self._set_response_mode(device_id, action)
        fault = Fault(action, None, None, lambda: self._set_response_mode(device_id, "normal"), device_id=device_id)
        with self._changed:
            self._active.append(fault)
        return fault
