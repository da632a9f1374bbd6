"""Databases with a fleet, written directly to the store, because filling them is not measured."""

from __future__ import annotations

import random
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from mirror_server.core import messages
from mirror_server.core.messages import NOTIFICATIONS
from mirror_server.hooks import open_database
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store import devices, logs, resources, subscriptions
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import AnnouncedResource, ReceivedValue
from mirror_server.store.session import Session

_DEVICES_A_TRANSACTION = 500
_ENTRIES_A_TRANSACTION = 10_000
_LIFETIME_SECONDS = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled database, and what a client needs to use it."""

    url: str
    key: str
    device_ids: tuple[str, ...]
    paths: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file of an SQLite database."""
        return Path(self.url.removeprefix("sqlite:///"))


def fill(
    where: Path | str, *, device_count: int, resource_count: int, log_entries: int = 0, subscribed_count: int = 1
) -> Filled:
    """Store a fleet whose devices report numbers, in a new file or at the URL of a database.

    The application of the key is subscribed to the first ``subscribed_count`` resources of each device.
    """
    url = where if isinstance(where, str) else f"sqlite:///{where}"
    names = tuple(f"{number:032x}" for number in range(device_count))
    paths = tuple(f"/3303/{number}/5700" for number in range(resource_count))
    now = int(time.time() * 1000)
    with closing(open_database(url)) as database:
        key = keys.create(database, "benchmark", tuple(Scope), now)
        app_id = key.split("_")[1]
        database.write(lambda session: logs.create(session, app_id))
        for begin in range(0, device_count, _DEVICES_A_TRANSACTION):
            some = names[begin : begin + _DEVICES_A_TRANSACTION]
            put = partial(_put_devices, names=some, paths=paths, subscribed=paths[:subscribed_count])
            database.write(partial(put, app_id=app_id, now=now))
        for begin in range(0, log_entries, _ENTRIES_A_TRANSACTION):
            count = min(_ENTRIES_A_TRANSACTION, log_entries - begin)
            database.write(partial(_log, names=names, path=paths[0], app_id=app_id, count=count, now=now))
    return Filled(url, key, names, paths)


def _put_devices(
    session: Session,
    *,
    names: tuple[str, ...],
    paths: tuple[str, ...],
    app_id: str,
    subscribed: tuple[str, ...],
    now: int,
) -> None:
    random_ = random.Random(names[0])
    announced = [AnnouncedResource(path, "", "text/plain", observable=True) for path in paths]
    for name in names:
        devices.put(session, _device(name, now))
        resources.announce(session, name, announced)
        resources.report(
            session,
            [
                ReceivedValue(
                    value=f"{random_.uniform(-20, 40):.2f}".encode(),
                    content_type="text/plain",
                    origin="subscription",
                    at=now,
                    expires_at=None,
                    device_id=name,
                    path=path,
                )
                for path in paths
            ],
        )
        for path in subscribed:
            subscriptions.put_single(session, app_id, name, path)
            subscriptions.accepted(session, name, path, now)


def _device(name: str, now: int) -> DeviceRow:
    return DeviceRow(
        device_id=name,
        endpoint_name=f"device-{name.lstrip('0') or '0'}",
        endpoint_type="Sensor",
        registered=1,
        queue_mode=0,
        lifetime_seconds=_LIFETIME_SECONDS,
        created_at=now,
        updated_at=now,
        last_contact_at=now,
        registration_expires_at=now + 1000 * _LIFETIME_SECONDS,
        backend="benchmark",
    )


def _log(session: Session, *, names: tuple[str, ...], path: str, app_id: str, count: int, now: int) -> None:
    for number in range(count):
        name = names[number % len(names)]
        entry = messages.notification(
            device_id=name,
            endpoint_name=name,
            path=path,
            payload=b"21.5",
            content_type="text/plain",
            max_age_seconds=None,
            changed_at=now,
        )
        body = orjson.dumps({**entry, "uid": f"{number:036}"})
        logs.append(session, app_id, [(name, body)], kind=NOTIFICATIONS, at=now, read_seq=0)
