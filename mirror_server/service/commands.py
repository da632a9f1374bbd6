"""Device requests: placing commands and storing how they end. Source: specification 3.1-3.3; wire.md 2."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from mirror_sdk.wire.device_object import DesiredStatus, Origin
from mirror_sdk.wire.device_requests import (
    ANY_REVISION,
    DEFAULT_CONTENT_TYPE,
    DESIRED_CHANGED,
    NEVER_WRITTEN,
    NO_FAILED_WRITE,
    QUEUE_LIMIT,
)
from mirror_sdk.wire.paths import parse_path
from mirror_server.clock import Clock
from mirror_server.core import messages
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
from mirror_server.devices.link import Answer, Content, Outcome, PartsOf
from mirror_server.notifications.awaited import Answered
from mirror_server.notifications.log import NotificationLog
from mirror_server.service.untold import Untold
from mirror_server.store import commands, devices, keys, resources
from mirror_server.store.changes import FinishedWrite, Listeners, Reported
from mirror_server.store.commands import Target
from mirror_server.store.database import Database
from mirror_server.store.resources import DesiredValue, ReportedValue, ResourceRow
from mirror_server.store.session import EXPIRY, TOLD, UNTOLD, WAITING, Session

T = TypeVar("T")

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


@dataclass(frozen=True, slots=True)
class _Asked:
    """A device request that is to be queued under an async-id."""

    placement: Placement
    async_id: str
    is_untold: bool

    @property
    def touched(self) -> tuple[str, ...]:
        """What it touches; see :meth:`mirror_server.store.writer.Writer.enqueue`."""
        device_id, app_id = self.placement.device_id, self.placement.app_id
        # The other request with an id that an application gave may be for another device.
        return (device_id,) if self.placement.async_id is None else (device_id, f"{app_id} {self.async_id}")

    @property
    def name(self) -> tuple[str, str]:
        """By what its application knows it."""
        return self.placement.app_id, self.async_id


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a command ends: with status and error category, and what the device said, if it did."""

    command: Command
    target: Target
    outcome: tuple[int, str | None]
    answer: Answer | None = None

    @property
    def is_done(self) -> bool:
        return self.answer is not None and self.outcome[1] is None


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
        listeners: Called with read values and finished writes.
        untold: Holds back what an application cannot know an answer to yet.
        under_way: Gives the numbers of the commands that devices have in hand.
        parts_of: Gives what takes apart an object instance for the backend of a name, where something does.
        new_async_id: Makes an async-id for a request that has none.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        log: NotificationLog,
        listeners: Listeners,
        untold: Untold,
        under_way: Callable[[], set[int]],
        parts_of: Callable[[str], PartsOf | None],
        new_async_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._database = database
        self._clock = clock
        self._log = log
        self._listeners = listeners
        self._untold = untold
        self._under_way = under_way
        self._parts_of = parts_of
        self._new_async_id = new_async_id

    def place(self, placement: Placement) -> Future[Command]:
        """Queue a command; gives it as it was accepted, which for a repeated async-id was the first time.

        The future raises a Refusal: 404 unknown device, 400 unknown resource, 409 async-id used for another request
        or a silent one for a device in queue mode,
        429 queue full, 412 (:class:`DesiredChanged`) the desired value is not the one of ``if_match``.
        """
        asked = _Asked(placement, placement.async_id or self._new_async_id(), is_untold=False)
        return self._database.submit_together(self._place, asked, touched=asked.touched)

    def place_and_wait(self, placement: Placement) -> tuple[Future[Command], Answered]:
        """Queue a command as :meth:`place` does, under the async-id it has, and wait for its answer besides.

        The second of what is given is done with the answer, or with ``None`` where the command had been placed before
        and there is no answer to be waited for; it raises what the first one raises.
        """
        asked = _Asked(placement, placement.async_id or self._new_async_id(), is_untold=False)
        answered = self._log.awaited.expect(*asked.name)
        stored = self._database.submit_together(self._place, asked, touched=asked.touched)
        stored.add_done_callback(partial(_give_up, answered))
        return stored, answered

    def place_untold(self, placement: Placement) -> tuple[Future[Command], Callable[[], None]]:
        """Queue a command as :meth:`place` does, without an async-id of the application's.

        The device gets it once the second of what is given was called: when the answer with the async-id was sent, or
        nobody is there to take it. It returns at once, and may be called from any thread.
        """
        async_id = self._new_async_id()
        self._untold.hold(placement.device_id, async_id)
        asked = _Asked(placement, async_id, is_untold=True)
        future = self._database.submit_together(self._place, asked, touched=asked.touched)
        return future, lambda: self._told(future, placement.device_id, async_id)

    def acknowledge(
        self, app_id: str, device_id: str, path: str, *, by: str | None, revision: int | None
    ) -> Future[None]:
        """Acknowledge the failed write of a resource; one that was acknowledged before stays as it is.

        The future raises a Refusal: 404 unknown device, 400 unknown resource, 409 there is no failed write, or another
        one than that of the revision.

        Args:
            app_id: The application that acknowledges it.
            device_id: The device.
            path: The resource.
            by: Who acknowledges it; the name of the application's key by default.
            revision: The revision of the desired value that the caller saw; any by default.
        """

        def work(session: Session) -> None:
            resource = _failed(session, device_id, path, revision)
            if resource.acknowledged_at is None:
                key = keys.find(session, app_id)
                who = by or (key.name if key else app_id)
                resources.acknowledge(session, device_id, path, by=who, at=self._clock.now())

        return self._database.submit(work)

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

    def finish(self, session: Session, ended: Sequence[tuple[Command, Answer | None]]) -> None:
        """Store how attempts to deliver commands ended; ``None`` when a device did not answer in time.

        The answer to a command that is over has still brought what it tells. Source: specification 2.2.
        """
        for some in _apart(ended, lambda each: (each[0].device_id,)):
            found = commands.targets_of_ending(session, [command for command, _ in some])
            endings = [
                ending
                for (command, answer), target in zip(some, found, strict=True)
                if (ending := self._ending(session, command, answer, target)) is not None
            ]
            self._end(session, endings)

    def _ending(
        self, session: Session, command: Command, answer: Answer | None, target: Target | None
    ) -> _Ending | None:
        """How a command ends with an attempt; ``None`` where it does not, or has before, which is then stored."""
        if target is None or not target.unfinished:
            self._take_late(session, command, answer)
            return None
        if answer is not None and answer.outcome.is_of_device:
            return _Ending(command, target, answer.outcome.value, answer)
        now = self._clock.now()
        if answer is not None and answer.outcome is Outcome.NOT_SENT:
            if now >= command.expires_at:
                return _Ending(command, target, _failure_at_expiry(command).value)
            # An attempt that was counted when it began was none.
            commands.set_attempts(session, command.command_id, command.attempts)
            return None
        if may_try_again(command, now):
            commands.set_attempts(session, command.command_id, command.attempts + 1)
            return None
        is_lost = answer is not None and answer.outcome is Outcome.UNAVAILABLE
        # Of an execute the outcome is unknown, and that is what TIMEOUT says.
        failure = Failure.NOT_CONNECTED if is_lost and command.request.is_idempotent else Failure.TIMEOUT
        return _Ending(command, target, failure.value)

    def begin_attempt(self, session: Session, command: Command) -> bool:
        """Store that a command is about to be sent; return false if it has ended or expired meanwhile.

        This is for commands that are not idempotent: after a crash, the stored attempt says that the device may have
        acted. To send any other command again does no harm, so it does without this transaction.
        """
        return commands.begin_attempt(session, command.command_id, self._clock.now())

    def end_interrupted(self, session: Session) -> None:
        """End the executes that an earlier leader sent and whose response it did not store: the outcome is unknown."""
        for command in commands.interrupted(session):
            self._fail(session, command, Failure.TIMEOUT)

    def expire(self, session: Session, now: Instant) -> None:
        """End the commands whose time is over; the dispatcher ends those that are in flight."""
        under_way = self._under_way()
        for command in commands.expired(session, now):
            if command.command_id not in under_way:
                self._fail(session, command, _failure_at_expiry(command))

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
        session.publish(TOLD, async_id)
        session.publish(WAITING, device_id)

    def _make_room(self, session: Session, device_id: str, async_id: str) -> None:
        """Let what waits shrink: who places so many at once has the oldest 202, and would else be refused."""
        oldest = self._untold.oldest(device_id)
        if oldest is not None and oldest != async_id:
            self._release(session, device_id, oldest)

    def _place(self, session: Session, asked: Sequence[_Asked]) -> list[Command]:
        """Queue commands, each as if those before it were queued already; gives them in their order."""
        return [
            command for some in _apart(asked, lambda each: each.touched) for command in self._place_apart(session, some)
        ]

    def _place_apart(self, session: Session, asked: Sequence[_Asked]) -> list[Command]:
        """Queue commands of which none touches what another does."""
        free_since = after_seconds(self._clock.now(), -ASYNC_ID_SECONDS)
        placed = {
            each.name: found
            for each in asked
            if each.placement.async_id is not None
            and (found := _find_placed(session, each.placement, each.async_id, free_since)) is not None
        }
        new = [each for each in asked if each.name not in placed]
        for name in placed:
            # Its answer may be there already, and nothing would come of waiting for it.
            session.after_commit(partial(self._log.awaited.tell, *name, None))
        if new:
            placed |= {each.name: command for each, command in zip(new, self._accept(session, new), strict=True)}
        return [placed[each.name] for each in asked]

    def _accept(self, session: Session, asked: Sequence[_Asked]) -> list[Command]:
        found = commands.targets_of_placed(
            session, [(each.placement.device_id, each.placement.request.path) for each in asked]
        )
        accepted = [(each, *self._accepted(session, each, target)) for each, target in zip(asked, found, strict=True)]
        numbers = commands.insert(session, [command for _, _, command in accepted])
        values = []
        for number, (_, target, command) in zip(numbers, accepted, strict=True):
            for path, content, current in self._written(session, target, number, command.request):
                value = write_accepted(
                    current,
                    command_id=number,
                    app_id=command.app_id,
                    value=content.payload,
                    content_type=content.content_type,
                    at=command.requested_at,
                )
                values.append(DesiredValue(command.device_id, path, value))
        if values:
            resources.put_desired(session, values)
        for each, _, command in accepted:
            self._tell_accepted(session, command, is_untold=each.is_untold)
        return [command for _, _, command in accepted]

    def _accepted(self, session: Session, asked: _Asked, target: Target | None) -> tuple[Target, Command]:
        """What a command is about, and as what it is queued, where it may be."""
        placement = asked.placement
        device_id, request = placement.device_id, placement.request
        if target is None:
            raise unknown_device(device_id)
        if not target.is_resource:
            self.check_instance(session, device_id, request.path)
        _check_seen(session, placement)
        _check_queue(target.unfinished)
        if target.unfinished >= _MANY_WAITING:
            self._make_room(session, device_id, asked.async_id)
        now = self._clock.now()
        queue_mode = target.queue_mode
        if placement.is_silent and queue_mode:
            raise _needs_answer(device_id)
        return target, Command(
            command_id=0,
            app_id=placement.app_id,
            async_id=asked.async_id,
            device_id=device_id,
            request=request,
            requested_at=now,
            expires_at=expires_at(now, placement.expiry_seconds, queue_mode=queue_mode),
            retries=retries(placement.retries, request, queue_mode=queue_mode),
            attempts=0,
            is_silent=placement.is_silent,
        )

    def _tell_accepted(self, session: Session, command: Command, *, is_untold: bool) -> None:
        device_id, async_id = command.device_id, command.async_id
        session.publish(EXPIRY, str(command.expires_at))
        if is_untold:
            stored = partial(self._untold.stored, device_id, async_id)
            session.publish(UNTOLD, f"{device_id} {async_id}", here=stored)
        else:
            session.publish(WAITING, device_id)

    def _fail(self, session: Session, command: Command, failure: Failure) -> None:
        """End a command that no device has answered."""
        (target,) = commands.targets_of_ending(session, [command])
        if target is not None:
            self._end(session, [_Ending(command, target, failure.value)])

    def _end(self, session: Session, endings: Sequence[_Ending]) -> None:
        """Store the ends of commands, each of another device."""
        if not endings:
            return
        now = self._clock.now()
        commands.finish(session, [ending.command.command_id for ending in endings], now)
        # The clock may have been set back meanwhile, or be that of another server.
        ended_at = {ending.command.command_id: max(now, ending.command.requested_at) for ending in endings}
        noted = self._finish_writes(session, [each for each in endings if each.command.request.is_write], ended_at, now)
        noted |= self._report(session, [(each.command, each.answer) for each in endings if each.is_done], now)
        heard_of = [each.command.device_id for each in endings if each.answer is not None]
        if not noted.issuperset(heard_of):
            devices.touch(session, [device_id for device_id in heard_of if device_id not in noted], now)
        told = [ending for ending in endings if not ending.command.is_silent]
        responses = [
            (each.command.app_id, each.command.device_id, _response(each, ended_at[each.command.command_id]))
            for each in told
        ]
        self._log.append(session, ASYNC_RESPONSES, responses)

    def _take_late(self, session: Session, command: Command, answer: Answer | None) -> None:
        if answer is None or not answer.outcome.is_of_device or devices.find(session, command.device_id) is None:
            return
        now = self._clock.now()
        if answer.outcome is not Outcome.DONE or not self._report(session, [(command, answer)], now):
            devices.touch(session, [command.device_id], now)

    def _report(self, session: Session, done: Iterable[tuple[Command, Answer | None]], now: Instant) -> set[str]:
        """Store what reads brought: one value each, or those of an object instance; gives the devices that sent any.

        That these were heard of is noted with it.
        """
        brought = [
            (answer, _read_values(command, answer, answer.content, now))
            for command, answer in done
            if command.request.method == "GET" and answer is not None and answer.content is not None
        ]
        values = [value for _, some in brought for value in some]
        if not values:
            return set()
        revision = resources.report(session, values, contact_at=now)
        if self._listeners.values_reported:
            answered_at = [answer.answered_at for answer, some in brought for _ in some]
            batch = [
                Reported(number, value, value.at if at is None else at)
                for number, (value, at) in enumerate(zip(values, answered_at, strict=True), revision)
            ]
            for listener in self._listeners.values_reported:
                listener(session, batch)
        return {value.device_id for value in values}

    def _finish_writes(
        self, session: Session, endings: Sequence[_Ending], ended_at: Mapping[int, Instant], now: Instant
    ) -> set[str]:
        """Store how writes ended; gives the devices of which it was noted with it that they were heard of."""
        written = [
            (ending, path, content, self._desired_at_end(ending, current, ended_at))
            for ending in endings
            for path, content, current in self._written(
                session, ending.target, ending.command.command_id, ending.command.request
            )
        ]
        revisions: dict[tuple[str, str], int] = {}
        for contact_at in (now, None):
            values = [
                DesiredValue(ending.command.device_id, path, value)
                for ending, path, _, value in written
                if value is not None and (ending.answer is not None) == (contact_at is not None)
            ]
            if values:
                first = resources.put_desired(session, values, contact_at=contact_at)
                revisions |= {value[:2]: revision for revision, value in enumerate(values, first)}
        if written and self._listeners.write_finished:
            batch = [
                FinishedWrite(
                    ending.command,
                    path,
                    content.payload,
                    content.content_type,
                    ending.outcome[1],
                    ended_at[ending.command.command_id],
                    revisions.get((ending.command.device_id, path)),
                )
                for ending, path, content, _ in written
            ]
            for listener in self._listeners.write_finished:
                listener(session, batch)
        return {device_id for device_id, _ in revisions}

    def _desired_at_end(
        self, ending: _Ending, current: Desired | None, ended_at: Mapping[int, Instant]
    ) -> Desired | None:
        command_id, category = ending.command.command_id, ending.outcome[1]
        return write_finished(current, command_id=command_id, category=category, at=ended_at[command_id])

    def _written(
        self, session: Session, target: Target, command_id: int, request: CommandRequest
    ) -> Iterator[tuple[str, Content, Desired | None]]:
        """What a write sets, by paths, and what was desired before: of one resource, or those of an object instance."""
        if not request.is_write:
            return
        content = Content(request.payload or b"", request.content_type or DEFAULT_CONTENT_TYPE)
        if target.is_resource:
            yield request.path, content, target.desired
            return
        parts_of = self._parts_of_device(session, target.device_id)
        if parts_of is None:
            # It was accepted by a server that had the device's backend, and ends in one that has not.
            for path, desired in resources.desired_by(session, target.device_id, command_id):
                yield path, Content(desired.value, desired.content_type), desired
            return
        try:
            values = parts_of(request.path, content)
        except ValueError as error:
            raise Refusal.of_field("payload-b64", str(error)) from error
        for path, each in values:
            yield path, each, resources.desired(session, target.device_id, path)

    def check_instance(self, session: Session, device_id: str, path: str) -> None:
        """Refuse a path that is no resource of the device, nor an object instance that it reads and writes."""
        if not _is_instance(session, device_id, path):
            message = f"the device has no resource {path}; GET /v2/endpoints/{device_id} lists those it has"
        elif self._parts_of_device(session, device_id) is None:
            message = (
                f"{path} is an object instance, which only a real device reads and writes as a whole; name one of its"
                f" resources. GET /v2/endpoints/{device_id} lists those it has"
            )
        else:
            return
        raise Refusal.of_field("uri", message, reason="RESOURCE_NOT_FOUND")

    def _parts_of_device(self, session: Session, device_id: str) -> PartsOf | None:
        """What takes apart the object instances of a device; ``None`` where it has single resources only."""
        device = devices.find(session, device_id)
        return None if device is None else self._parts_of(device.backend)


def _apart(items: Sequence[T], touched_by: Callable[[T], Collection[str]]) -> Iterator[list[T]]:
    """The items in their order, in parts in which none touches what another does."""
    some: list[T] = []
    touched: set[str] = set()
    for item in items:
        if not touched.isdisjoint(touched_by(item)):
            yield some
            some, touched = [], set()
        some.append(item)
        touched.update(touched_by(item))
    if some:
        yield some


def _response(ending: _Ending, at: Instant) -> dict[str, Any]:
    """What the application is told of the end of its command."""
    command, content = ending.command, ending.answer.content if ending.answer else None
    status, category = ending.outcome
    return messages.async_response(
        async_id=command.async_id,
        device_id=command.device_id,
        endpoint_name=ending.target.endpoint_name,
        path=command.request.path,
        status=status,
        category=category,
        payload=content.payload if content else b"",
        content_type=content.content_type if content else None,
        max_age_seconds=content.max_age_seconds if content else None,
        at=at,
    )


def _failure_at_expiry(command: Command) -> Failure:
    """How a command ends that expires. A device that got it before, and did not respond, may have acted."""
    return Failure.TIMEOUT if command.attempts else Failure.EXPIRED


def _read_values(command: Command, answer: Answer, content: Content, now: Instant) -> list[ReportedValue]:
    """What a read brought: one value, or those of an object instance."""
    parts = ((command.request.path, content),) if answer.parts is None else answer.parts
    return [reported_value(command.device_id, path, each, now, "read") for path, each in parts]


def reported_value(
    device_id: str, path: str, content: Content, now: Instant, origin: Origin, changed_at: Instant | None = None
) -> ReportedValue:
    """A value from a device, and by what it came, as the mirror takes it; ``changed_at`` where an event tells it."""
    max_age = content.max_age_seconds
    expires_at = after_seconds(now, max_age) if max_age is not None else None
    return ReportedValue(content.payload, content.content_type, origin, now, expires_at, device_id, path, changed_at)


def _give_up(answered: Answered, stored: Future[Command]) -> None:
    """Have who waits for an answer learn that the command was not queued."""
    error = stored.exception()
    if error is not None:
        # Nobody may wait any more.
        with suppress(InvalidStateError):
            answered.set_exception(error)


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


def _failed(session: Session, device_id: str, path: str, revision: int | None) -> ResourceRow:
    """The resource, whose last write has failed.

    Raises:
        Refusal: The device (404) or the resource (400) is unknown, or the write did not fail or is another one (409).
    """
    if devices.find(session, device_id) is None:
        raise unknown_device(device_id)
    resource = resources.find(session, device_id, path)
    if resource is None:
        message = f"the device has no resource {path}; GET /v2/endpoints/{device_id} lists those it has"
        raise Refusal.of_field("resource_path", message, reason="RESOURCE_NOT_FOUND")
    if resource.desired_status != DesiredStatus.FAILURE:
        status = "none" if resource.desired_status is None else DesiredStatus(resource.desired_status).name.lower()
        message = (
            f"the last write of {path} has not failed (its status is {status}), so there is nothing to acknowledge"
        )
        raise Refusal(409, message, reason=NO_FAILED_WRITE, fields=[("resource_path", message)])
    if revision not in (None, resource.desired_revision):
        message = f"{_told_desired(resource)}, not {revision}; read the resource again and decide again"
        raise Refusal(409, message, reason=NO_FAILED_WRITE, fields=[("revision", message)])
    return resource


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
    return f"the desired value of {resource.path} is of revision {resource.desired_revision}"


def _told_seen(seen: int | Literal["*"] | None) -> str:
    if seen == ANY_REVISION:
        return "one that was"
    return "one that never was" if seen == NEVER_WRITTEN else f"revision {seen}"


def _is_instance(session: Session, device_id: str, path: str) -> bool:
    """Whether it is an object instance that the device has."""
    parts = parse_path(path)
    if parts.instance_id is None or parts.resource_id is not None:
        return False
    return resources.has_instance(session, device_id, path)


def _needs_answer(device_id: str) -> Refusal:
    message = f"the device {device_id!r} is in queue mode, and what it takes later has to be answered; leave it out"
    return Refusal(409, f"noResp: {message}", fields=[("noResp", message)])


def _check_queue(waiting: int) -> None:
    """Refuse a command where as many wait for its device as may."""
    if waiting >= QUEUE_LIMIT:
        raise Refusal(
            429,
            f"{QUEUE_LIMIT} commands wait for this device already; wait until one has been answered or has expired."
            " Those that nobody waits for so long may expire sooner: place them with expiry_seconds",
            reason="QUEUE_IS_FULL",
        )
