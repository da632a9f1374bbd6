"""A mirror whose devices run in its own process, at the interface of a device backend.

Arguments: the database and, optionally, further settings of the server as ``name=number``. It reads and writes lines of
JSON.
Events of devices go to :class:`mirror_server.service.devices.DeviceService`, as from a device backend, so no figure
includes the protocol between device and server.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

from measuring import percentile

from mirror_server.devices.interface import Content, Observation, Registration
from mirror_server.extensions.apply import store
from mirror_server.extensions.apply.applier import RuleApplier
from mirror_server.extensions.logs.handler import configure
from mirror_server.hooks import read_settings
from mirror_server.server import Services
from mirror_server.store.resources import AnnouncedResource
from mirror_server.store.session import Session
from mirror_server.web.serve import listen, serve

_LAST_SECONDS = 60
_LOG_BYTES = 2_000_000_000
_REGISTRATIONS_IN_FLIGHT = 32


class DeviceSide:
    """Executes commands as the devices."""

    def __init__(self, services: Services) -> None:
        self._services = services
        url = services.settings.database_url
        self._wal = Path(url.removeprefix("sqlite:///") + "-wal") if url.startswith("sqlite:") else None
        self._values = count()

    def serve(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            print(json.dumps(getattr(self, command.pop("do"))(**command)), flush=True)

    def event(self, device_id: str, path: str) -> dict[str, Any]:
        """Submit one observation, and return the time of its submission on the clock that all processes share."""
        at_ns = time.monotonic_ns()
        self._services.devices.observed([self._observation(device_id, path)])
        return {"at_ns": at_ns}

    def saturate(self, device_ids: list[str], path: str, seconds: float, in_flight: int, batch: int) -> dict[str, Any]:
        """Submit observations as fast as they are stored, with ``in_flight`` groups of ``batch`` at a time."""
        names = cycle(device_ids)
        largest_wal = 0

        def group() -> Any:
            nonlocal largest_wal
            if self._wal is not None:
                largest_wal = max(largest_wal, self._wal.stat().st_size)
            return self._services.devices.observed([self._observation(next(names), path) for _ in range(batch)])

        durations, total_seconds = _keep_busy(group, in_flight, lambda began, _: time.perf_counter() - began < seconds)
        return {
            "rate": len(durations) * batch / total_seconds,
            **_times(durations),
            "worst_ms": 1000 * max(durations),
            "wal_bytes": largest_wal,
        }

    def report(self, device_ids: list[str], paths: list[str], seconds: float, rate: int) -> dict[str, float]:
        """Submit observations at a rate, all resources of a device together.

        A value is the time of its submission in milliseconds of the monotonic clock.
        """
        groups, names = max(1, int(seconds * rate / len(paths))), cycle(device_ids)

        def group() -> Any:
            content, now = Content(f"{time.monotonic_ns() / 1e6:.3f}".encode()), self._services.clock.now()
            name = next(names)
            return self._services.devices.observed([Observation(name, path, content, now) for path in paths])

        def go_on(began: float, submitted: int) -> bool:
            time.sleep(max(0.0, began + submitted * len(paths) / rate - time.perf_counter()))
            return submitted < groups

        cpu_seconds = time.process_time()
        # Devices do not wait for each other, so the number of groups in flight is not limited.
        durations, total_seconds = _keep_busy(group, groups, go_on)
        return {
            "count": groups * len(paths),
            "rate": groups * len(paths) / total_seconds,
            "cpu_us": 1e6 * (time.process_time() - cpu_seconds) / groups / len(paths),
            "p99_ms": 1000 * percentile(durations, 0.99),
            "worst_ms": 1000 * max(durations),
        }

    def register(self, prefix: str, number: int, resources: int) -> dict[str, Any]:
        """Register new devices, and return the seconds per device and the times of one."""
        introduced = tuple(AnnouncedResource(f"/3303/{each}/5700") for each in range(resources))
        names = count()

        def one() -> Any:
            name = f"{prefix}-{next(names)}"
            registration = Registration(
                name, "Sensor", queue_mode=False, lifetime_seconds=86_400, resources=introduced, backend="benchmark"
            )
            return self._services.devices.registered(registration)

        return _registrations(one, number)

    def update(self, device_ids: list[str], paths: list[str]) -> dict[str, Any]:
        """Update the registration of each device, with all its resources, as in :meth:`register`."""
        announced = tuple(map(AnnouncedResource, paths))
        ids = iter(device_ids)
        update = self._services.devices.registration_updated
        return _registrations(lambda: update(next(ids), announced), len(device_ids))

    def apply_rules(self, app_id: str, rules: int) -> dict[str, float]:
        """Apply rules that match nothing, and return the duration and the longest concurrent write."""
        listed = [{"resource-path": [f"/9/9{number}*"]} for number in range(rules)]
        began, longest = time.perf_counter(), 0.0
        put = partial(self._services.part(RuleApplier).rules_put, apply_now=True)
        stored = self._services.subscriptions.put_rules(app_id, json.dumps(listed), then=put)
        while not stored.done() or self._is_applying():
            probe_began = time.perf_counter()
            self._services.database.write(Session.probe)
            longest = max(longest, time.perf_counter() - probe_began)
        return {"seconds": time.perf_counter() - began, "longest_write": longest}

    def _is_applying(self) -> bool:
        return self._services.database.query(lambda session: store.next_to_apply(session, "")) is not None

    def _observation(self, device_id: str, path: str) -> Observation:
        content = Content(f"{next(self._values) % 1000 / 10}".encode())
        return Observation(device_id, path, content, self._services.clock.now())


def _registrations(begin: Callable[[], Any], number: int) -> dict[str, float]:
    durations, total_seconds = _keep_busy(begin, _REGISTRATIONS_IN_FLIGHT, lambda _, submitted: submitted < number)
    return {"seconds": total_seconds / number, **_times(durations)}


def _times(durations: list[float]) -> dict[str, float]:
    return {"p50_ms": 1000 * percentile(durations, 0.5), "p99_ms": 1000 * percentile(durations, 0.99)}


def _keep_busy(
    begin: Callable[[], Any], in_flight: int, go_on: Callable[[float, int], bool]
) -> tuple[list[float], float]:
    """Keep ``in_flight`` futures open while ``go_on(start time, number of futures)`` is true, and start at least one.

    Returns:
        The seconds of each future, and of all.

    Raises:
        TimeoutError: A future is still open a minute later.
    """
    free = threading.Semaphore(in_flight)
    durations: list[float] = []
    failures: list[BaseException] = []
    began, submitted = time.perf_counter(), 0
    while (not submitted or go_on(began, submitted)) and not failures:
        free.acquire()
        started = time.perf_counter()

        def done(future: Any, started: float = started) -> None:
            durations.append(time.perf_counter() - started)
            if future.exception() is not None:
                failures.append(future.exception())
            free.release()

        begin().add_done_callback(done)
        submitted += 1
    for _ in range(in_flight):
        if not free.acquire(timeout=_LAST_SECONDS):
            raise TimeoutError(f"what a device sent was not stored within {_LAST_SECONDS} s")
    if failures:
        raise failures[0]
    return durations, time.perf_counter() - began


def main() -> None:
    # Standard output is for the responses.
    configure("console", sys.stderr, access_log=False)
    usual = {"simulate": 0, "keep_log_bytes": _LOG_BYTES, "max_parked_polls": 100_000}
    overrides = {name: int(number) for name, number in (option.split("=") for option in sys.argv[2:])}
    settings = read_settings(database_url=sys.argv[1], **(usual | overrides))
    listener = listen("127.0.0.1", 0)
    services = Services(settings)
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    threading.Thread(target=DeviceSide(services).serve, daemon=True).start()
    serve(services, listener)


if __name__ == "__main__":
    main()
