"""Device requests: queue them as commands, and store the outcomes of the commands.

Source: specification 3.1-3.3; wire.md 2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from mirror_sdk.wire.device_object import Origin
from mirror_sdk.wire.device_requests import (
    DEFAULT_CONTENT_TYPE,
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
from mirror_server.core.desired import DesiredState, write_accepted, write_finished
from mirror_server.core.errors import ApiError, unknown_device
from mirror_server.core.messages import ASYNC_RESPONSES
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.devices.interface import Content, DeviceResponse, Outcome, SplitInstance
from mirror_server.notifications.log import NotificationLog
from mirror_server.store import commands, devices, resources
from mirror_server.store.change_listeners import FinishedWrite, Listeners
from mirror_server.store.commands import CommandContext
from mirror_server.store.database import Database
from mirror_server.store.resources import DesiredUpdate, ReceivedValue
from mirror_server.store.session import EXPIRY, WAITING, Session

T = TypeVar("T")

Check = Callable[[Session, CommandContext], object]
"""A function that checks a device request in the transaction that queues it. It may raise an ApiError."""


@dataclass(frozen=True, slots=True)
class CommandSubmission:
    """A device request that an application submits.

    Attributes:
        app_id: The id of the application.
        device_id: The id of the device.
        request: The operation on the device.
        async_id: The id that the application chose for the request.
        expiry_seconds: The time in seconds after which the pending command expires, or ``None`` for the default.
        retries: The maximum number of retries, or ``None`` for the default.
        is_silent: Whether the server omits the async response. A value that the command reads is still stored.
        checks: The checks that run before the command is queued. They are skipped if a command with this async-id was
            queued before.
    """

    app_id: str
    device_id: str
    request: CommandRequest
    async_id: str
    expiry_seconds: int | None = None
    retries: int | None = None
    is_silent: bool = False
    checks: tuple[Check, ...] = ()

    @property
    def conflict_keys(self) -> tuple[str, str]:
        """The conflict keys for :meth:`mirror_server.store.writer.Writer.enqueue`: the device and the async-id.

        Both are needed, because another request with the same async-id may be for another device.
        """
        return self.device_id, f"{self.app_id} {self.async_id}"

    @property
    def name(self) -> tuple[str, str]:
        """The id of the application and the async-id."""
        return self.app_id, self.async_id


@dataclass(frozen=True, slots=True)
class _Completion:
    """The end of a command, with its outcome and the response of the device.

    Attributes:
        command: The command.
        context: The device and the resource of the command.
        outcome: The status and the error category of the outcome.
        at: The time at which the command completed.
        response: The response of the device, or ``None`` if the command failed without a response.
    """

    command: Command
    context: CommandContext
    outcome: tuple[int, str | None]
    at: Instant
    response: DeviceResponse | None = None


class CommandService:
    """The service that accepts device requests and stores their outcomes.

    Args:
        database: The database with the commands, the desired values and the notification logs.
        clock: The clock of the server.
        log: The log to which async responses are appended.
        listeners: The functions to call with read values and finished writes.
        in_flight: A function that returns the numbers of the commands that were sent and await a response.
        split_instance: A function that returns the function of a backend that splits object instances.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        log: NotificationLog,
        listeners: Listeners,
        in_flight: Callable[[], set[int]],
        split_instance: Callable[[str], SplitInstance | None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._log = log
        self._listeners = listeners
        self._in_flight = in_flight
        self._split_instance = split_instance

    def submit(self, submission: CommandSubmission) -> Future[Command]:
        """Queue a command and return the accepted command.

        For a repeated async-id, the result is the command of the first request. The future raises an ApiError if the
        request is rejected. The code is 404 for an unknown device, 400 for an unknown resource, 409 for an async-id
        that was used for another request, and 429 for a full queue. A check may raise further errors.
        """
        return self._database.enqueue(self._submit, items=[submission], conflict_keys=submission.conflict_keys)

    def finish(self, session: Session, attempts: Sequence[tuple[Command, DeviceResponse | None]]) -> None:
        """Store the results of attempts to deliver commands.

        The result of an attempt is ``None`` if the device did not respond in time. A late response, which arrives after
        the command has ended, is stored too. Source: specification 2.2.
        """
        # The contexts of a group are read before any of its commands ends. So a group has one command per device.
        for group in _disjoint(attempts, lambda attempt: (attempt[0].device_id,)):
            found = commands.contexts_of_ending(session, [command for command, _ in group])
            completed = [
                completion
                for (command, response), context in zip(group, found, strict=True)
                if (completion := self._finish_attempt(session, command, response, context)) is not None
            ]
            if completed:
                self._complete(session, completed)

    def _finish_attempt(
        self, session: Session, command: Command, response: DeviceResponse | None, context: CommandContext | None
    ) -> _Completion | None:
        """Return the completion after an attempt, or ``None`` if the command is still pending or had ended before."""
        if context is None or not context.unfinished:
            self._store_late(session, command, response)
            return None
        if response is not None and response.outcome.is_from_device:
            return self._completion(command, context, response.outcome.value, response)
        now = self._clock.now()
        if response is not None and response.outcome is Outcome.NOT_SENT:
            if now >= command.expires_at:
                return self._completion(command, context, _failure_at_expiry(command).value)
            # Nothing was sent, so an attempt that was counted in advance does not count.
            commands.set_attempts(session, command.command_id, command.attempts)
            return None
        if may_try_again(command, now):
            commands.set_attempts(session, command.command_id, command.attempts + 1)
            return None
        is_lost = response is not None and response.outcome is Outcome.UNAVAILABLE
        # The device may have run the execute before the connection was lost. TIMEOUT means an unknown outcome.
        failure = Failure.NOT_CONNECTED if is_lost and command.request.is_idempotent else Failure.TIMEOUT
        return self._completion(command, context, failure.value)

    def end_interrupted(self, session: Session) -> None:
        """Fail the executes that an earlier leader sent without storing a response, so that the outcome is unknown."""
        for command in commands.interrupted(session):
            self._fail(session, command, Failure.TIMEOUT)

    def expire(self, session: Session, now: Instant) -> None:
        """Fail the expired commands that are not in flight. The dispatcher ends the commands in flight."""
        in_flight = self._in_flight()
        for command in commands.expired(session, now):
            if command.command_id not in in_flight:
                self._fail(session, command, _failure_at_expiry(command))

    def cancel_all(self, session: Session, device_id: str) -> None:
        """Fail all pending commands of a device that deregistered."""
        for command in commands.waiting(session, device_id):
            self._fail(session, command, Failure.DEREGISTERED)

    def _submit(self, session: Session, submissions: Sequence[CommandSubmission]) -> list[Command]:
        """Queue commands and return them in the order of the submissions.

        Each submission is checked as if the submissions before it were already queued.
        """
        return [
            command
            for group in _disjoint(submissions, lambda submission: submission.conflict_keys)
            for command in self._submit_group(session, group)
        ]

    def _submit_group(self, session: Session, submissions: Sequence[CommandSubmission]) -> list[Command]:
        """Queue commands of different devices with different async-ids."""
        expired_at = after_seconds(self._clock.now(), -ASYNC_ID_SECONDS)
        queued = {
            each.name: found for each in submissions if (found := _find_queued(session, each, expired_at)) is not None
        }
        new = [each for each in submissions if each.name not in queued]
        if new:
            queued |= {each.name: command for each, command in zip(new, self._accept(session, new), strict=True)}
        return [queued[each.name] for each in submissions]

    def _accept(self, session: Session, submissions: Sequence[CommandSubmission]) -> list[Command]:
        found = commands.contexts_of_new(session, [(each.device_id, each.request.path) for each in submissions])
        # If a submission is rejected, the writer rolls the transaction back and runs each submission alone.
        accepted = [self._check(session, each, context) for each, context in zip(submissions, found, strict=True)]
        numbers = commands.insert(session, [command for _, command in accepted])
        values = []
        for number, (context, command) in zip(numbers, accepted, strict=True):
            for path, content, current in self._written_values(session, context, number, command.request):
                value = write_accepted(
                    current,
                    command_id=number,
                    app_id=command.app_id,
                    value=content.payload,
                    content_type=content.content_type,
                    at=command.requested_at,
                )
                values.append(DesiredUpdate(command.device_id, path, value))
        if values:
            resources.put_desired(session, values)
        for _, command in accepted:
            session.publish(EXPIRY, str(command.expires_at))
            session.publish(WAITING, command.device_id)
        return [command for _, command in accepted]

    def _check(
        self, session: Session, submission: CommandSubmission, context: CommandContext | None
    ) -> tuple[CommandContext, Command]:
        """Check a submission, and return the context of the command and the command to queue.

        Raises:
            ApiError: The command cannot be queued.
        """
        device_id, request = submission.device_id, submission.request
        if context is None:
            raise unknown_device(device_id)
        if not context.is_resource:
            self.check_instance(session, device_id, request.path)
        for check in submission.checks:
            check(session, context)
        if context.unfinished >= QUEUE_LIMIT:
            raise ApiError(
                429,
                f"{QUEUE_LIMIT} requests wait for this device already; wait until one has completed or expired."
                " To let requests expire sooner, submit them with expiry_seconds",
                reason="QUEUE_IS_FULL",
            )
        now = self._clock.now()
        return context, Command(
            # The database assigns the number.
            command_id=0,
            app_id=submission.app_id,
            async_id=submission.async_id,
            device_id=device_id,
            request=request,
            requested_at=now,
            expires_at=expires_at(now, submission.expiry_seconds, queue_mode=context.queue_mode),
            retries=retries(submission.retries, request, queue_mode=context.queue_mode),
            attempts=0,
            is_silent=submission.is_silent,
        )

    def _fail(self, session: Session, command: Command, failure: Failure) -> None:
        """End a command to which the device did not respond."""
        (context,) = commands.contexts_of_ending(session, [command])
        if context is not None:
            self._complete(session, [self._completion(command, context, failure.value)])

    def _completion(
        self,
        command: Command,
        context: CommandContext,
        outcome: tuple[int, str | None],
        response: DeviceResponse | None = None,
    ) -> _Completion:
        # The time must not be earlier than the request. The clock may have been set back, or another server may have
        # stored the request by its own clock.
        return _Completion(command, context, outcome, max(self._clock.now(), command.requested_at), response)

    def _complete(self, session: Session, completed: Sequence[_Completion]) -> None:
        """Store the completions of commands for different devices."""
        now = self._clock.now()
        commands.finish(session, [each.command.command_id for each in completed], now)
        recorded = self._finish_writes(session, [each for each in completed if each.command.request.is_write], now)
        done = [(each.command, each.response) for each in completed if each.outcome[1] is None]
        recorded |= self._report(session, done, now)
        responded = {each.context.device_id for each in completed if each.response is not None}
        # The contact with the devices in ``recorded`` was stored together with their values.
        if responded - recorded:
            devices.record_contact(session, sorted(responded - recorded), now)
        responses = [
            (each.command.app_id, each.command.device_id, _response(each))
            for each in completed
            if not each.command.is_silent
        ]
        self._log.append(session, ASYNC_RESPONSES, responses)

    def _store_late(self, session: Session, command: Command, response: DeviceResponse | None) -> None:
        """Store the response to a command that has already ended."""
        if response is None or not response.outcome.is_from_device or devices.find(session, command.device_id) is None:
            return
        now = self._clock.now()
        if response.outcome is not Outcome.DONE or not self._report(session, [(command, response)], now):
            devices.record_contact(session, [command.device_id], now)

    def _report(
        self, session: Session, done: Iterable[tuple[Command, DeviceResponse | None]], now: Instant
    ) -> set[str]:
        """Store the values that reads returned, and the contact with their devices.

        Return the ids of these devices.
        """
        values = [
            (value, response.responded_at or now, False)
            for command, response in done
            if command.request.method == "GET" and response is not None and response.content is not None
            for value in _read_values(command, response, response.content, now)
        ]
        if values:
            self._listeners.report(session, values, contact_at=now)
        return {value.device_id for value, *_ in values}

    def _finish_writes(self, session: Session, completed: Sequence[_Completion], now: Instant) -> set[str]:
        """Store the outcomes of writes, and the contact with the devices that responded.

        Return the ids of all devices whose desired values changed.
        """
        written = [
            (each, path, content, _desired_after(each, current))
            for each in completed
            for path, content, current in self._written_values(
                session, each.context, each.command.command_id, each.command.request
            )
        ]
        revisions: dict[tuple[str, str], int] = {}
        # Only devices that responded were in contact.
        for contact_at in (now, None):
            values = [
                DesiredUpdate(each.command.device_id, path, value)
                for each, path, _, value in written
                if value is not None and (each.response is not None) == (contact_at is not None)
            ]
            if values:
                first = resources.put_desired(session, values, contact_at=contact_at)
                revisions |= {value[:2]: revision for revision, value in enumerate(values, first)}
        if written and self._listeners.write_finished:
            batch = [
                FinishedWrite(
                    each.command,
                    path,
                    content.payload,
                    content.content_type,
                    each.outcome[1],
                    each.at,
                    revisions.get((each.command.device_id, path)),
                )
                for each, path, content, _ in written
            ]
            for listener in self._listeners.write_finished:
                listener(session, batch)
        return {device_id for device_id, _ in revisions}

    def _written_values(
        self, session: Session, context: CommandContext, command_id: int, request: CommandRequest
    ) -> Iterator[tuple[str, Content, DesiredState | None]]:
        """Yield the path, the new value and the previous desired value for each resource of a write.

        A write of an object instance has several resources.
        """
        if not request.is_write:
            return
        content = Content(request.payload or b"", request.content_type or DEFAULT_CONTENT_TYPE)
        if context.is_resource:
            yield request.path, content, context.desired
            return
        split_instance = self._splitter_of(session, context.device_id)
        if split_instance is None:
            # Another server, which has the device's backend, accepted the command and stored the values of the
            # instance.
            for path, desired in resources.desired_by(session, context.device_id, command_id):
                yield path, Content(desired.value, desired.content_type), desired
            return
        try:
            values = split_instance(request.path, content)
        except ValueError as error:
            raise ApiError.of_field("payload-b64", str(error)) from error
        for path, each in values:
            yield path, each, resources.desired(session, context.device_id, path)

    def check_instance(self, session: Session, device_id: str, path: str) -> None:
        """Check that a path is an object instance that the device can read and write as a unit.

        Raises:
            ApiError: The path is not such an object instance (400).
        """
        ids = parse_path(path)
        is_instance = ids.instance_id is not None and ids.resource_id is None
        if not (is_instance and resources.has_instance(session, device_id, path)):
            message = f"the device has no resource {path}; GET /v2/endpoints/{device_id} lists its resources"
        elif self._splitter_of(session, device_id) is None:
            message = (
                f"{path} is an object instance, which only a real device reads and writes as a whole; name one of its"
                f" resources. GET /v2/endpoints/{device_id} lists its resources"
            )
        else:
            return
        raise ApiError.of_field("uri", message, reason="RESOURCE_NOT_FOUND")

    def _splitter_of(self, session: Session, device_id: str) -> SplitInstance | None:
        """Return the function that splits object instances of a device.

        Return ``None`` if the backend of the device supports only single resources.
        """
        device = devices.find(session, device_id)
        return None if device is None else self._split_instance(device.backend)


def _disjoint(items: Sequence[T], keys_of: Callable[[T], Collection[str]]) -> Iterator[list[T]]:
    """Split items into groups in which no two items have a common key. The order of the items does not change."""
    group: list[T] = []
    keys: set[str] = set()
    for item in items:
        if not keys.isdisjoint(keys_of(item)):
            yield group
            group, keys = [], set()
        group.append(item)
        keys.update(keys_of(item))
    if group:
        yield group


def _desired_after(completion: _Completion, current: DesiredState | None) -> DesiredState | None:
    command_id, category = completion.command.command_id, completion.outcome[1]
    return write_finished(current, command_id=command_id, category=category, at=completion.at)


def _response(completion: _Completion) -> dict[str, Any]:
    command, content = completion.command, completion.response.content if completion.response else None
    status, category = completion.outcome
    return messages.async_response(
        async_id=command.async_id,
        device_id=command.device_id,
        endpoint_name=completion.context.endpoint_name,
        path=command.request.path,
        status=status,
        category=category,
        payload=content.payload if content else b"",
        content_type=content.content_type if content else None,
        max_age_seconds=content.max_age_seconds if content else None,
        at=completion.at,
    )


def _failure_at_expiry(command: Command) -> Failure:
    """Return the failure with which an expired command ends.

    After an attempt without a response, the failure is ``TIMEOUT``, because the device may have executed the command.
    """
    return Failure.TIMEOUT if command.attempts else Failure.EXPIRED


def _read_values(command: Command, response: DeviceResponse, content: Content, now: Instant) -> list[ReceivedValue]:
    """Return the value that a read of a resource returned, or all values that a read of an object instance returned."""
    values = ((command.request.path, content),) if response.instance_values is None else response.instance_values
    return [reported_value(command.device_id, path, each, now, "read") for path, each in values]


def reported_value(
    device_id: str, path: str, content: Content, now: Instant, origin: Origin, changed_at: Instant | None = None
) -> ReceivedValue:
    """Return a reported value to store.

    Args:
        device_id: The id of the device.
        path: The path of the resource.
        content: The value.
        now: The current time.
        origin: The kind of message that contained the value.
        changed_at: The time of the change in the device's notification, if the value came in a notification.
    """
    max_age = content.max_age_seconds
    expires_at = after_seconds(now, max_age) if max_age is not None else None
    return ReceivedValue(content.payload, content.content_type, origin, now, expires_at, device_id, path, changed_at)


def _find_queued(session: Session, submission: CommandSubmission, expired_at: Instant) -> Command | None:
    """Return the command that was queued with this async-id, unless it completed at ``expired_at`` or earlier.

    Raises:
        ApiError: The async-id belongs to another request (409).
    """
    queued = commands.find(session, submission.app_id, submission.async_id)
    # The server deletes expired finished commands only once an hour.
    if queued is None or commands.delete_if_finished(session, queued.command_id, expired_at):
        return None
    if (queued.device_id, queued.request) != (submission.device_id, submission.request):
        raise ApiError(
            409,
            f"async-id: {submission.async_id!r} was used for another request in the last 24 h; use a new one",
            fields=[("async-id", "already used for another request")],
        )
    return queued
