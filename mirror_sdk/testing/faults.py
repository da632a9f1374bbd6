"""Faults that a test injects into connections between client and server, into devices, and into the server itself.

All faults are counted and follow the clock of the mirror, so a test has the same result on every run.
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
"""The available faults, each with the conditions that it supports."""


class Faults:
    """A set of methods that inject faults into a mirror under test: in messages, in devices, and in the server.

    Faults in notifications only affect polls that send a position, as all clients of this package do.

    Args:
        now: A function that returns the current time of the mirror.
        set_response_mode: A function that sets how a device responds.
        id_of: A function that returns the id of a device from its id, endpoint name or object.
        restart_server: A function that stops the server and starts it again.
        patience_seconds: The time for which the server waits for the response of a device, in seconds.
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
        """Drop messages, as if they were lost.

        Args:
            target: The kind of message. A ``request`` never arrives, and the client sees a failed connection. A
                ``response`` is lost after the server processed the request. A ``notification`` or an ``async-response``
                is removed from its message; the client sees no gap.
            times: The number of messages to drop. ``None`` drops all messages until you end the fault.
            path: The path of the affected messages; ``*`` at the end matches anything. For requests and responses, it
                is the path of the URL (``/v3/*``), and for notifications the resource path. By default, all paths are
                affected.
            method: The HTTP method of the affected requests and responses. By default, all methods are affected.
            device: The device of the affected notifications. By default, all devices are affected.

        Raises:
            ValueError: ``target`` is unknown, or it cannot be combined with one of the conditions.
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
        """Deliver messages twice.

        A ``request`` is delivered twice to the server. The other targets of :meth:`drop` are delivered twice to the
        client.

        For the arguments and errors, see :meth:`drop`.
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
        """Deliver messages late. The delay is measured by the clock of the mirror.

        A late ``response`` itself advances the clock for the server and its devices. If the delay exceeds the timeout
        of the client, the client times out. With ``notification``, the channel delivers nothing until you have advanced
        the clock by the delay. Then it delivers everything in order.

        Args:
            target: ``response`` or ``notification``. With ``notification``, the only other argument is ``by``.
            by: The delay as a number of seconds, a string such as ``"5min"``, or a timedelta.
            times: The number of responses to delay. ``None`` delays all responses until you end the fault.
            path: The URL path of the affected responses; ``*`` at the end matches anything. By default, all are
                affected.
            method: The HTTP method of the affected responses. By default, all are affected.

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

        The channel delivers nothing until it has ``count`` notifications.

        Args:
            count: The number of notifications to reverse, at least 2.
            path: The resource path of the affected notifications; ``*`` at the end matches anything. By default, all
                are affected.
            device: The device of the affected notifications. By default, all devices are affected.

        Raises:
            ValueError: ``count`` is too small.
        """
        if count < 2:
            raise ValueError(f"count={count} must be 2 or more")
        return self._add("reorder", "notification", times=count, path=path, device=device)

    # Devices, server

    def reject(self, device: DeviceLike) -> Fault:
        """Make a device reject all requests until you end the fault.

        The client raises ``DeviceRequestRejected``.
        """
        return self._set_device(device, "reject")

    def silence(self, device: DeviceLike) -> Fault:
        """Make a device stop responding until you end the fault.

        The server waits for a response until the clock has advanced by a certain time. Then the request fails with
        ``DeviceUnavailable``. A call that waits for the result, such as ``client.read_value``, itself advances the
        clock by this time once for each attempt. It takes no real time.
        """
        return self._set_device(device, "silent")

    def restart_server(self) -> None:
        """Stop the server and start it again with the same database. Open polls lose their connection."""
        self._restart_server()

    def clear(self) -> None:
        """End all faults.

        The next reader receives the original entries, even if a fault had changed or dropped them.
        """
        with self._changed:
            ended, self._active = self._active, []
        # This runs without the lock, because ending the fault of a device sends a request to the server.
        for fault in ended:
            fault.end()

    # For the transport

    def acting_on(self, request: httpx.Request) -> list[Fault]:
        """Return the faults that act on this request or its response, and count the action."""
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
        """Return whether the notification channel is currently delayed."""
        with self._changed:
            now = self._now()
            return any(fault.is_live and fault.until_at and now < fault.until_at for fault in self._active)

    def is_incomplete(self, message: Mapping[str, Any]) -> bool:
        """Return whether a message must be delayed until the notifications arrive that a fault delivers before it.

        This is so if a fault that reorders notifications affects the message and has not received all of its
        notifications yet.
        """
        entries = message.get("notifications", [])
        with self._changed:
            waiting = [fault for fault in self._active if fault.action == "reorder"]
            return any(any(fault.affected_entries(entries)) and fault.is_live for fault in waiting)

    def alter(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a notification message with the effects of all faults."""
        altered = dict(message)
        with self._changed:
            for key, target in ENTRY_LISTS.items():
                for fault in self._active:
                    if key in altered and fault.target == target:
                        altered[key] = fault.alter(altered[key])
        return {key: entries for key, entries in altered.items() if entries}

    def wake(self) -> None:
        """Wake polls that wait because the channel is delayed, so that they check its state again."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until the clock is advanced or a fault ends, but at most ``seconds``."""
        with self._changed:
            # The state is checked again under the lock. Otherwise a wake() since the last check would be missed.
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
