"""Device requests: placing commands and storing how they end. Source: specification 3.1-3.3; wire.md 2."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from mirror_sdk.wire.device_object import Origin
from mirror_sdk.wire.device_requests import (
    ANY_REVISION,
    DEFAULT_CONTENT_TYPE,
    DESIRED_CHANGED,
    NEVER_WRITTEN,
    QUEUE_LIMIT,
)
from mirror_sdk.wire.paths import parse_path
from mirror_server.clock import Clock
from mirror_server.core import events
from mirror_server.core.commands import (
    ASYNC_ID_SECONDS,
    Command,
    CommandRequest,
    Failure,
    expires_at,
    may_try_again,
    retries,
)
from mirror_server.core.desired import Desired, write_accepted, write_finished
from mirror_server.core.errors import Refusal, unknown_device
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.core.messages import ASYNC_RESPONSES
from mirror_server.devices.link import Answer, Content, Outcome
from mirror_server.notifications.log import NotificationLog
from mirror_server.service.happenings import Happenings
from mirror_server.service.untold import Untold
from mirror_server.store import commands, devices, registrations, resources, targets
from mirror_server.store.database import Database
from mirror_server.store.process_messages import EXPIRY, TOLD, UNTOLD, WAITING
from mirror_server.store.resources import ReportedValue, ResourceRow
from mirror_server.store.session import Session
from mirror_server.store.targets import Target

_MANY_WAITING = QUEUE_LIMIT // 2


@dataclass(frozen=True, slots=True)
class Placement:
    """A device request as an application places it; what is ``None`` is left to the service.

    ``if_match`` is the revision of the desired value that the writer saw, 0 for none yet, or ``*`` for any. Of one that
    ``is_silent`` nobody is told how it ends; what it brings is in the mirror all the same.
    """

    app_id: str
    device_id: str
    request: CommandRequest
    async_id: str | None = None
    expiry_seconds: int | None = None
    retries: int | None = None
    if_match: int | Literal["*"] | None = None
    is_silent: bool = False


class DesiredChanged(Refusal):
    """The desired value of a resource is not the one that a writer saw (412).

    Attributes:
        resource: The resource as it is now.
        app_id: The application that wanted to write.
    """

    def __init__(self, placement: Placement, resource: ResourceRow) -> None:
        told = (
            f"{_told_desired(resource)}, and the write was for {_told_seen(placement.if_match)}; nothing was queued."
            " Look at the resource as it is now, and write with its revision if the write is still wanted"
        )
        super().__init__(412, f"If-Match: {told}", reason=DESIRED_CHANGED, fields=[("If-Match", told)])
        self.resource = resource
        self.app_id = placement.app_id


class CommandService:
    """Accepts device requests and stores their outcome.

    Args:
        database: Where commands, desired values and the log are.
        clock: Domain time.
        log: Where async responses go.
        happenings: Where reads and the ends of writes go.
        untold: Holds back what an application cannot know an answer to yet.
        wake: Called with a device id when something new waits for it.
        expiry_due: Called with the instant at which a new command expires.
        under_way: Gives the numbers of the commands that devices have in hand.
        values_of: Gives the values of resources that stand in the payload of an object instance, by their paths;
            raises ValueError, with the reason, where it cannot be read.
        new_async_id: Makes an async-id for a request that has none.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        log: NotificationLog,
        happenings: Happenings,
        untold: Untold,
        wake: Callable[[str], None],
        expiry_due: Callable[[Instant], None],
        under_way: Callable[[], set[int]],
        values_of: Callable[[str, Content], Sequence[tuple[str, Content]]],
        new_async_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._database = database
        self._clock = clock
        self._log = log
        self._happenings = happenings
        self._untold = untold
        self._wake = wake
        self._expiry_due = expiry_due
        self._under_way = under_way
        self._values_of = values_of
        self._new_async_id = new_async_id

    def place(self, placement: Placement) -> Future[Command]:
        """Queue a command; gives it as it was accepted, which for a repeated async-id was the first time.

        The future raises a Refusal: 404 unknown device, 400 unknown resource, 409 async-id used for another request
        or a silent one for a device in queue mode,
        429 queue full, 412 (:class:`DesiredChanged`) the desired value is not the one of ``if_match``.
        """

        def work(session: Session) -> Command:
            free_since = after_seconds(self._clock.now(), -ASYNC_ID_SECONDS)
            placed = None
            if placement.async_id is not None:
                placed = _find_placed(session, placement, placement.async_id, free_since)
            return placed or self._accept(session, placement, placement.async_id or self._new_async_id())

        touched = [placement.device_id]
        if placement.async_id is not None:
            # The other request with this id may be for another device.
            touched.append(f"{placement.app_id} {placement.async_id}")
        return self._database.submit(work, touched=touched)

    def place_untold(self, placement: Placement) -> tuple[Future[Command], Callable[[], None]]:
        """Queue a command as :meth:`place` does, without an async-id of the application's.

        The device gets it once the second of what is given was called: when the answer with the async-id was sent, or
        nobody is there to take it. It returns at once, and may be called from any thread.
        """
        async_id = self._new_async_id()
        self._untold.hold(placement.device_id, async_id)
        future = self._database.submit(
            lambda session: self._accept(session, placement, async_id, is_untold=True), touched=[placement.device_id]
        )
        return future, lambda: self._told(future, placement.device_id, async_id)

    def cached(self, device_id: str, path: str) -> Content | None:
        """The value of a resource that the mirror holds, while it is fresh; ``None`` where there is no such value.

        Raises:
            Refusal: There is no such device (404) or no such resource of it (400).
        """
        with self._database.read() as session:
            if devices.find(session, device_id) is None:
                raise unknown_device(device_id)
            _check_path(session, device_id, path)
            row = resources.find(session, device_id, path)
        if row is None or row.reported_value is None:
            return None
        if row.reported_expires_at is not None and row.reported_expires_at <= self._clock.now():
            return None
        return Content(row.reported_value, row.reported_content_type or DEFAULT_CONTENT_TYPE)

    def waiting(
        self, app_id: str, *, device_id: str | None, after: str | None, limit: int
    ) -> list[tuple[Command, bool]]:
        """Up to ``limit`` commands of an application that wait, in order, and whether the device has each in hand.

        Args:
            app_id: The application.
            device_id: Only those for this device.
            after: Only those behind the one with this async-id.
            limit: How many at most.

        Raises:
            Refusal: There is no such device (404), or no command with the async-id ``after`` (400).
        """
        with self._database.read() as session:
            if device_id is not None and devices.find(session, device_id) is None:
                raise unknown_device(device_id)
            last = commands.find(session, app_id, after) if after is not None else None
            if after is not None and last is None:
                raise Refusal.of_field("after", f"no request with the async-id {after!r}; begin again without it")
            number = last.command_id if last else 0
            found = commands.page_waiting(session, app_id, device_id=device_id, after=number, limit=limit)
        under_way = self._under_way()
        return [(command, command.command_id in under_way) for command in found]

    def finish(self, session: Session, command: Command, answer: Answer | None) -> None:
        """Store how an attempt to deliver a command ended; ``None`` when the device did not answer in time.

        The answer to a command that is over has still brought what it tells. Source: specification 2.2.
        """
        target = targets.of_ending(session, command.device_id, command.request.path, command.command_id)
        if target is None or not target.unfinished:
            self._take_late(session, command, answer)
            return
        if answer is not None and answer.outcome is Outcome.NOT_SENT:
            return
        if answer is not None and answer.outcome.is_of_device:
            self._end(session, command, answer.outcome.value, target, answer)
        elif may_try_again(command, self._clock.now()):
            commands.count_attempt(session, command.command_id)
        else:
            is_lost = answer is not None and answer.outcome is Outcome.UNAVAILABLE
            failure = Failure.NOT_CONNECTED if is_lost else Failure.TIMEOUT
            self._end(session, command, failure.value, target)

    def expire(self, session: Session, now: Instant) -> None:
        """End the commands whose time is over; one that a device has in hand waits for its answer."""
        under_way = self._under_way()
        for command in commands.expired(session, now):
            if command.command_id not in under_way:
                self._fail(session, command, Failure.EXPIRED)

    def cancel_all(self, session: Session, device_id: str) -> None:
        """End all commands that wait for a device that left."""
        for command in commands.waiting(session, device_id):
            self._fail(session, command, Failure.DEREGISTERED)

    def _told(self, future: Future[Command], device_id: str, async_id: str) -> None:
        if future.done() and future.exception() is not None:
            self._untold.release(async_id)
            return

        # The writer takes it behind the request itself, and wakes the device on its own thread.
        self._database.insist(lambda session: self._release(session, device_id, async_id), by_leader=False, touched=())

    def _release(self, session: Session, device_id: str, async_id: str) -> None:
        def release() -> None:
            self._untold.release(async_id)
            self._wake(device_id)

        session.after_commit(release)
        session.notify(f"{TOLD} {async_id}")
        session.notify(f"{WAITING} {device_id}")

    def _make_room(self, session: Session, device_id: str, async_id: str) -> None:
        """Let what waits shrink: who places so many at once has the oldest 202, and would else be refused."""
        oldest = self._untold.oldest(device_id)
        if oldest is not None and oldest != async_id:
            self._release(session, device_id, oldest)

    def _accept(self, session: Session, placement: Placement, async_id: str, *, is_untold: bool = False) -> Command:
        device_id, request = placement.device_id, placement.request
        target = targets.of_placed(session, device_id, request.path)
        if target is None:
            raise unknown_device(device_id)
        if not target.is_resource:
            _check_instance(session, device_id, request.path)
        _check_seen(session, placement)
        _check_queue(target.unfinished)
        if target.unfinished >= _MANY_WAITING:
            self._make_room(session, device_id, async_id)
        now = self._clock.now()
        queue_mode = target.queue_mode
        if placement.is_silent and queue_mode:
            raise _needs_answer(device_id)
        command = Command(
            command_id=0,
            app_id=placement.app_id,
            async_id=async_id,
            device_id=device_id,
            request=request,
            requested_at=now,
            expires_at=expires_at(now, placement.expiry_seconds, queue_mode=queue_mode),
            retries=retries(placement.retries, queue_mode=queue_mode),
            attempts=0,
            is_silent=placement.is_silent,
        )
        command_id = commands.insert(session, command)
        for path, content, current in self._written(session, target, request):
            value = write_accepted(
                current,
                command_id=command_id,
                app_id=placement.app_id,
                value=content.payload,
                content_type=content.content_type,
                at=now,
            )
            resources.put_desired(session, device_id, path, value)
        session.after_commit(lambda: self._expiry_due(command.expires_at))
        session.notify(f"{EXPIRY} {command.expires_at}")
        if is_untold:
            session.after_commit(lambda: self._untold.stored(device_id, async_id))
            session.notify(f"{UNTOLD} {device_id} {async_id}")
        else:
            # The 202 goes first.
            session.after_commit(lambda: self._wake(device_id), begins=True)
            session.notify(f"{WAITING} {device_id}")
        return command

    def _fail(self, session: Session, command: Command, failure: Failure) -> None:
        """End a command that no device has answered."""
        target = targets.of_ending(session, command.device_id, command.request.path, command.command_id)
        if target is not None:
            self._end(session, command, failure.value, target)

    def _end(
        self,
        session: Session,
        command: Command,
        outcome: tuple[int, str | None],
        target: Target,
        answer: Answer | None = None,
    ) -> None:
        """Store the end of a command; ``answer`` is what the device said, if it did."""
        status, category = outcome
        content = None if answer is None else answer.content
        now = self._clock.now()
        contact_at = None if answer is None else now
        # The clock may have been set back meanwhile, or be that of another server.
        ended_at = max(now, command.requested_at)
        commands.finish(session, command.command_id, now)
        is_contact_noted = False
        if command.request.is_write:
            is_contact_noted = self._finish_write(session, command, target, category, ended_at, contact_at)
        elif category is None and answer is not None:
            is_contact_noted = self._report(session, command, answer, now)
        if contact_at is not None and not is_contact_noted:
            devices.touch(session, [command.device_id], contact_at)
        if command.is_silent:
            return
        response = events.async_response(
            async_id=command.async_id,
            device_id=command.device_id,
            endpoint_name=target.endpoint_name,
            path=command.request.path,
            status=status,
            category=category,
            payload=content.payload if content else b"",
            content_type=content.content_type if content else None,
            max_age_seconds=content.max_age_seconds if content else None,
            at=ended_at,
        )
        self._log.append(session, command.app_id, ASYNC_RESPONSES, command.device_id, response)

    def _take_late(self, session: Session, command: Command, answer: Answer | None) -> None:
        if answer is None or not answer.outcome.is_of_device or devices.find(session, command.device_id) is None:
            return
        now = self._clock.now()
        if answer.outcome is not Outcome.DONE or not self._report(session, command, answer, now):
            devices.touch(session, [command.device_id], now)

    def _report(self, session: Session, command: Command, answer: Answer, now: Instant) -> bool:
        """Store what a read brought: one value, or those of an object instance; gives whether it brought anything.

        That the device was heard of is noted with it.
        """
        if command.request.method != "GET" or answer.content is None:
            return False
        parts = answer.parts or ((command.request.path, answer.content),)
        values = [reported_value(command.device_id, path, content, now, "read") for path, content in parts]
        first_revision = resources.report(session, values, contact_at=now)
        self._happenings.answered(session, first_revision, values, answer.answered_at)
        return True

    def _finish_write(
        self,
        session: Session,
        command: Command,
        target: Target,
        category: str | None,
        ended_at: Instant,
        contact_at: Instant | None,
    ) -> bool:
        """Store how a write ended; gives whether it was noted with it when the device was heard of."""
        is_noted = False
        for path, content, current in self._written(session, target, command.request):
            value = write_finished(current, command_id=command.command_id, category=category, at=ended_at)
            revision = None
            if value is not None:
                revision = resources.put_desired(session, command.device_id, path, value, contact_at=contact_at)
                is_noted = True
            self._happenings.write_ended(session, command, path, content, category, ended_at, revision)
        return is_noted

    def _written(
        self, session: Session, target: Target, request: CommandRequest
    ) -> Iterator[tuple[str, Content, Desired | None]]:
        """What a write sets, by paths, and what was desired before: of one resource, or those of an object instance."""
        if not request.is_write:
            return
        content = Content(request.payload or b"", request.content_type or DEFAULT_CONTENT_TYPE)
        if target.is_resource:
            yield request.path, content, target.desired
            return
        try:
            values = self._values_of(request.path, content)
        except ValueError as error:
            raise Refusal.of_field("payload-b64", str(error)) from error
        for path, each in values:
            yield path, each, resources.desired(session, target.device_id, path)


def reported_value(
    device_id: str, path: str, content: Content, now: Instant, origin: Origin, changed_at: Instant | None = None
) -> ReportedValue:
    """A value from a device, and by what it came, as the mirror takes it; ``changed_at`` where an event tells it."""
    max_age = content.max_age_seconds
    expires_at = after_seconds(now, max_age) if max_age is not None else None
    return ReportedValue(content.payload, content.content_type, origin, now, expires_at, device_id, path, changed_at)


def _find_placed(session: Session, placement: Placement, async_id: str, free_since: Instant) -> Command | None:
    """The request, if it is there already; one that was answered at ``free_since`` or before counts no more."""
    placed = commands.find(session, placement.app_id, async_id)
    if placed is None or commands.forget_if_finished(session, placed.command_id, free_since):
        return None
    if (placed.device_id, placed.request) != (placement.device_id, placement.request):
        raise Refusal(
            409,
            f"async-id: {async_id!r} stands for another request of the last 24 h; take a new one",
            fields=[("async-id", "already used for another request")],
        )
    return placed


def _check_path(session: Session, device_id: str, path: str) -> None:
    if not resources.knows_path(session, device_id, path):
        _check_instance(session, device_id, path)


def _check_instance(session: Session, device_id: str, path: str) -> None:
    """Refuse a path that is no resource of the device, unless it is an object instance that can be read and written."""
    if not _is_instance(session, device_id, path):
        message = f"the device has no resource {path}; GET /v2/endpoints/{device_id} lists those it has"
        raise Refusal.of_field("uri", message, reason="RESOURCE_NOT_FOUND")


def _check_seen(session: Session, placement: Placement) -> None:
    """Refuse a write whose writer saw another desired value than there is now."""
    if placement.if_match is None:
        return
    path = placement.request.path
    resource = resources.find(session, placement.device_id, path)
    if resource is None:
        told = f"{path} is an object instance, and each of its resources has a revision of its own; write one of them"
        raise Refusal.of_field("If-Match", told)
    if not _is_as_seen(resource, placement.if_match):
        raise DesiredChanged(placement, resource)


def _is_as_seen(resource: ResourceRow, seen: int | Literal["*"]) -> bool:
    if resource.desired_status is None:
        return seen == NEVER_WRITTEN
    return seen in (ANY_REVISION, resource.desired_revision)


def _told_desired(resource: ResourceRow) -> str:
    if resource.desired_status is None:
        return f"{resource.path} was never written"
    if resource.desired_revision is None:
        return f"the desired value of {resource.path} is of an earlier version of this service and has no revision"
    return f"the desired value of {resource.path} is of revision {resource.desired_revision}"


def _told_seen(seen: int | Literal["*"] | None) -> str:
    if seen == ANY_REVISION:
        return "one that was"
    return "one that never was" if seen == NEVER_WRITTEN else f"revision {seen}"


def _is_instance(session: Session, device_id: str, path: str) -> bool:
    """Whether it is an object instance of a real device, which is read and written whole."""
    parts = parse_path(path)
    if parts.instance_id is None or parts.resource_id is not None:
        return False
    return registrations.is_real(session, device_id) and resources.has_instance(session, device_id, path)


def _needs_answer(device_id: str) -> Refusal:
    message = f"the device {device_id!r} is in queue mode, and what it takes later has to be answered; leave it out"
    return Refusal(409, f"noResp: {message}", fields=[("noResp", message)])


def _check_queue(waiting: int) -> None:
    """Refuse a command where as many wait for its device as may."""
    if waiting >= QUEUE_LIMIT:
        raise Refusal(
            429,
            f"{QUEUE_LIMIT} commands wait for this device already; wait until one has been answered or has expired",
            reason="QUEUE_IS_FULL",
        )
