"""Changes that extensions can listen to. Listeners run on the writer thread, in the transaction of the change.

A listener that raises an exception rolls the change back.
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
        value: The value as the mirror has it.
        changed_at: When the value changed, by the clock of the device where it sent a time.
        is_published: Whether the device sent it with its registration.
    """

    revision: int
    value: ReceivedValue
    changed_at: Instant
    is_published: bool = False


class FinishedWrite(NamedTuple):
    """The end of a write to one resource.

    Attributes:
        command: The write.
        path: The resource. A write of an object instance ends for each of its resources.
        value: The written value.
        content_type: The format of the value.
        category: Why it failed, or ``None`` if it succeeded.
        at: When it ended.
        revision: The number of the change of the desired value, or ``None`` if a later write had replaced it.
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
    """A registration that began, was updated or ended.

    Attributes:
        revision: A unique number, in the order of all changes.
        kind: What happened.
        device: The device before the change.
        at: When it happened.
        state_change: Whether the device is registered now and was not before, or the other way round.
    """

    revision: int
    kind: RegistrationKind
    device: DeviceRow
    at: Instant
    state_change: bool


@dataclass(slots=True)
class Listeners:
    """The listeners of each kind of change. A batch is not built without listeners.

    Attributes:
        values_reported: Called with the values of one group of changes.
        write_finished: Called with the completed writes of one group of changes.
        registration_changed: Called with the registrations that changed.
        devices_deleted: Called with device ids, before the rows of these devices are deleted.
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
        """Store values that devices reported, see :func:`mirror_server.store.resources.report`, and pass them on.

        Args:
            session: The transaction.
            values: The values, each with :attr:`Reported.changed_at` and :attr:`Reported.is_published`.
            contact_at: The time of the contact with the devices, unless the caller records it.
        """
        first = resources.report(session, [value for value, *_ in values], contact_at=contact_at)
        if values and self.values_reported:
            batch = [ReportedChange(revision, *each) for revision, each in enumerate(values, first)]
            for listener in self.values_reported:
                listener(session, batch)
