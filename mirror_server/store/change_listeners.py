"""Changes that extensions can listen to.

Listeners run on the writer thread, in the transaction of the change. If a listener raises an exception, the change is
rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from mirror_server.core.commands import Command
from mirror_server.core.timestamps import Instant
from mirror_server.store import resources
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import ReceivedValue
from mirror_server.store.session import Session


class ReportedChange(NamedTuple):
    """A value that a device reported.

    Attributes:
        revision: The number of the change.
        value: The value as it is stored in the mirror.
        changed_at: The time of the change, by the clock of the device if the device sent a time.
        is_published: Whether the device sent the value together with its registration.
    """

    revision: int
    value: ReceivedValue
    changed_at: Instant
    is_published: bool = False


class FinishedWrite(NamedTuple):
    """The end of a write to one resource.

    Attributes:
        command: The command that wrote the value.
        path: The path of the resource. A write of an object instance causes one of these objects per resource.
        value: The written value.
        content_type: The content type of the value.
        category: The error category, or ``None`` if the write succeeded.
        at: The time at which the write ended.
        revision: The number of the change of the desired value, or ``None`` if a later write had replaced the value.
    """

    command: Command
    path: str
    value: bytes
    content_type: str
    category: str | None
    at: Instant
    revision: int | None


RegistrationKind: TypeAlias = Literal["registration", "reg_update", "deregistration", "expired"]


class RegistrationChange(NamedTuple):
    """A registration that started, was updated or ended.

    Attributes:
        revision: A unique number, in the order of all changes.
        kind: The kind of the change.
        device: The device before the change.
        at: The time of the change.
        state_change: Whether the change started or ended the registered state of the device.
    """

    revision: int
    kind: RegistrationKind
    device: DeviceRow
    at: Instant
    state_change: bool


@dataclass(slots=True)
class Listeners:
    """The listeners for each kind of change. Without listeners for a kind, no batches of this kind are built.

    Attributes:
        values_reported: Functions that are called with the values of one group of changes.
        write_finished: Functions that are called with the completed writes of one group of changes.
        registration_changed: Functions that are called with the registrations that changed.
        devices_deleted: Functions that are called with device ids before the rows of these devices are deleted.
    """

    values_reported: list[Callable[[Session, Sequence[ReportedChange]], object]] = field(default_factory=list)
    write_finished: list[Callable[[Session, Sequence[FinishedWrite]], object]] = field(default_factory=list)
    registration_changed: list[Callable[[Session, Sequence[RegistrationChange]], object]] = field(default_factory=list)
    devices_deleted: list[Callable[[Session, Sequence[str]], object]] = field(default_factory=list)

    def report(
        self,
        session: Session,
        values: Sequence[tuple[ReceivedValue, Instant, bool]],
        *,
        contact_at: Instant | None = None,
    ) -> None:
        """Store values that devices reported, and pass them to the listeners.

        Args:
            session: The current transaction.
            values: Tuples of a value, the ``changed_at`` and the ``is_published`` of its :class:`ReportedChange`.
            contact_at: The time of the contact with the devices. Omit it if the caller records the contact.
        """
        first = resources.report(session, [value for value, *_ in values], contact_at=contact_at)
        if values and self.values_reported:
            batch = [ReportedChange(revision, *each) for revision, each in enumerate(values, first)]
            for listener in self.values_reported:
                listener(session, batch)
