"""The session of one asynchronous client, which its methods and groups of methods share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack
from weakref import WeakSet

from mirror_sdk._arguments import count, log_position, seconds, text
from mirror_sdk._attribute_suggestions import WithAttributeSuggestions
from mirror_sdk._fork import Lock, import_locked
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest
from mirror_sdk._protocol.async_fan_out import gather_requests
from mirror_sdk._protocol.async_log_consumers import AsyncEvents, AsyncResponseRouter, AsyncWatch
from mirror_sdk._protocol.async_log_reader import AsyncLogReader
from mirror_sdk._protocol.client_status import Channel
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.defaults import DEFAULT_MAX_RETRIES, DEFAULT_MAX_SNAPSHOT_BYTES
from mirror_sdk._protocol.flow import Effect, Flow, Sleep, Work
from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk._protocol.request_options import RequestOptions
from mirror_sdk._protocol.response_matcher import ResponseMatcher
from mirror_sdk._run_in_thread import run_in_thread
from mirror_sdk._table_arguments import DeviceTable, ResourceKey, is_table, raise_first, warn_if_empty
from mirror_sdk._table_arguments import resource_keys as keys_in
from mirror_sdk.config import ClientSettings, read_max_snapshot_bytes
from mirror_sdk.device import DeviceObject
from mirror_sdk.device_lookup import (
    ANY_ID,
    DeviceLike,
    DevicesLike,
    NameCache,
    id_of,
    ids_of,
    name_passed,
    send_for,
    send_to,
)
from mirror_sdk.errors import BadRequest, Conflict, MirrorError, NotFound
from mirror_sdk.events import Event, event_filter, utc_now
from mirror_sdk.values import Value, decode
from mirror_sdk.wire.device_requests import Method

if TYPE_CHECKING:
    import httpx

    from mirror_sdk._protocol.async_log_websockets import AsyncLogWebsockets
    from mirror_sdk.cassette import AsyncCassette
    from mirror_sdk.recording import AsyncRecorder
    from mirror_sdk.webhook.async_callback_reader import AsyncCallbackReader

T = TypeVar("T")
E = TypeVar("E", bound=_operations.Listed)


class AsyncClientSession:
    """The state and the internal requests that the methods of one client and of its groups share.

    Attributes:
        base_url: The address of the service.
        key_mark: A short digest of the access key, for data that must not be shared between keys.
        sender: The sender of operations.
        max_snapshot_bytes: The maximum size of a snapshot after decompression, in bytes.
        names: The cache of device names.
        router: The object that waits for responses to device requests.
        callbacks: The reader of the webhook, if the client uses one.
        sockets: The websockets, if the client uses them.
        cassette: The cassette that ends when the client is closed.
        client: A function that returns the client, so that errors can suggest its members. It returns ``None`` if the
            client no longer exists.
    """

    client: Callable[[], WithAttributeSuggestions | None]

    def __init__(
        self,
        settings: ClientSettings,
        *,
        timeout_seconds: float,
        max_retries: int = DEFAULT_MAX_RETRIES,
        max_snapshot_bytes: int = DEFAULT_MAX_SNAPSHOT_BYTES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        # Imported here, because httpx takes a third of the import time and only programs with a client need it.
        import_locked("mirror_sdk._protocol.async_sender")
        from mirror_sdk._protocol.async_sender import AsyncSender

        self.base_url: str = settings.base_url
        self.key_mark: str = settings.key_mark
        self.sender: AsyncSender = AsyncSender(
            settings, timeout_seconds=timeout_seconds, max_retries=max_retries, transport=transport
        )
        self.max_snapshot_bytes: int = read_max_snapshot_bytes(max_snapshot_bytes)
        self.callbacks: AsyncCallbackReader | None = None
        self.sockets: AsyncLogWebsockets | None = None
        self.names: NameCache = NameCache()
        self.router: AsyncResponseRouter = AsyncResponseRouter(self.new_log_reader(None), ResponseMatcher())
        # A lock, because a widget starts its watch on another thread, and a set must not change during an iteration.
        self._watches_lock = Lock()
        self._watches: WeakSet[AsyncWatch | AsyncRecorder] = WeakSet()
        self.cassette: AsyncCassette | None = None

    @property
    def watches(self) -> list[AsyncWatch | AsyncRecorder]:
        """The watches and recorders that are stopped when the client is closed."""
        with self._watches_lock:
            return list(self._watches)

    def add_watch(self, watch: AsyncWatch | AsyncRecorder) -> None:
        """Register a watch or recorder, which is stopped when the client is closed if it still exists."""
        with self._watches_lock:
            self._watches.add(watch)

    def open_events(
        self,
        *,
        timeout: float,
        outage_timeout: float | None,
        limit: int | None,
        after: int | None,
        paths: Collection[str] | None,
        devices: DevicesLike | None,
    ) -> AsyncEvents:
        """Return an iterator over the events from now on, or after a log entry; see ``client.events()``."""
        idle_seconds, most = seconds("timeout", timeout), count("limit", limit)
        accepts = event_filter(paths, devices if isinstance(devices, str) else None)
        reader = self.new_reader(after=log_position(after))
        events = AsyncEvents(
            reader,
            timeout_seconds=idle_seconds,
            outage_seconds=None if outage_timeout is None else seconds("outage_timeout", outage_timeout),
            limit=most,
            accepts=accepts,
            find_filter=None if devices is None else partial(self._filter_of, paths, devices),
            clock=self.sender.clock.waiting_seconds,
            now=self.sender.clock.now,
        )
        if devices is not None or not reader.has_position:  # asynchronous alone: the others begin when they are made
            # If no loop is running, the iterator starts later.
            with suppress(RuntimeError):
                # Prioritized, because the program's next requests must be sent after the iterator has its position.
                # Otherwise it would miss their effects.
                self.sender.prioritize(events.begin())
        return events

    async def _filter_of(self, paths: Collection[str] | None, devices: DevicesLike) -> Callable[[Event], bool]:
        return event_filter(paths, frozenset(await self.ids_of(devices)))

    async def send_for(
        self,
        device: DeviceLike,
        operation: Callable[[str], Operation[T]],
        *,
        refresh: bool = False,
        timeout: float | None = None,
    ) -> T:
        return await self.run(send_for(self.names, device, operation, refresh=refresh), timeout)

    async def act_on(
        self,
        devices: DeviceLike | DeviceTable,
        path: str | None,
        operation: Callable[..., Operation[None]],
        timeout: float | None,
        seen: Mapping[ResourceKey, int] | None = None,
    ) -> None:
        """Send an operation to one resource, or to each resource in a table.

        If ``devices`` is a table, ``seen`` contains the revision that the caller expects for each resource. ``seen`` is
        ignored for a single device.
        """
        if not is_table(devices):
            await self.send_for(devices, partial(operation, path=text("path", path)), refresh=True, timeout=timeout)
            return
        deadline = self.sender.total_deadline(timeout)
        named = await run_in_thread(keys_in, devices, path, "device_id")
        warn_if_empty(named, "device_id")
        ids = await self.run(ids_of(self.names, [device for device, _ in named], "device_id"), deadline)
        keys = [(device_id, each) for device_id, (_, each) in zip(ids, named, strict=True)]
        revisions = {key: seen[row] for key, row in zip(keys, named, strict=True) if seen and row in seen}

        async def act(key: ResourceKey) -> MirrorError | None:
            options = {"revision": revisions[key]} if key in revisions else {}
            try:
                await self.sender.send(operation(*key, **options), deadline)
            # An error for one resource does not stop the others. The first error is raised when all requests have
            # ended.
            except (BadRequest, Conflict, NotFound) as error:
                return error
            return None

        raise_first(keys, await gather_requests(act, keys))

    async def ids_of(self, devices: DevicesLike, argument: str = "devices", timeout: float | None = None) -> list[str]:
        return await self.run(ids_of(self.names, devices, argument), timeout)

    async def collect(
        self,
        page: Callable[..., Operation[_operations.ListPage[E]]],
        timeout: float | None,
        *,
        limit: int | None = None,
    ) -> list[E]:
        """Return all items of a list, which is fetched page by page.

        Args:
            page: A function that returns the operation for a page.
            timeout: The timeout for all pages in seconds. With ``None``, the client's timeout applies to each page.
            limit: The maximum number of items to return. ``None`` returns all of them.

        Raises:
            UnexpectedResponse: The service repeats a page, or sends an empty page that is not the last one.
        """
        found: list[E] = []
        pages = _operations.Pages()
        after: str | None = None
        while limit is None or len(found) < limit:
            next_page = await self.sender.send(page(after=after), timeout)
            after = pages.next_after(next_page)
            found += next_page.data
            if after is None:
                break
        # A page has a minimum size, so the last page may return too many items.
        return found[:limit]

    async def run(self, flow: Flow[T], timeout: float | None = None) -> T:
        """Perform the effects of a flow one after another within the timeout of one call, and return its result."""
        deadline = self.sender.deadline(timeout)
        try:
            effect = next(flow)
            while True:
                try:
                    result = await self._perform(effect, deadline)
                except MirrorError as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(result)
        except StopIteration as end:
            found: T = end.value
            return found

    async def _perform(self, effect: Effect, deadline: Deadline) -> Any:
        if isinstance(effect, Work):
            return await run_in_thread(effect.do)
        if isinstance(effect, Sleep):
            return await self.sender.pause(effect, deadline)
        return await self.sender.send(effect, deadline)

    async def read_device(self, device_id: str, take: Callable[[DeviceObject], T], timeout: float | None = None) -> T:
        operation = _operations.read_device_object(device_id, lambda found: take(DeviceObject.from_wire(found)))
        return await self.sender.send(operation, timeout)

    async def submit_and_wait(
        self,
        method: Method,
        device: DeviceLike,
        path: str,
        wait: Deadline | None,
        *,
        expiry_seconds: int | None,
        **options: Unpack[RequestOptions],
    ) -> Value:
        """Submit a device request and wait for its response, which can arrive with the 202 if no other task waits."""
        request = await self.submit(
            method,
            device,
            path,
            expiry_seconds=expiry_seconds,
            async_id=None,
            timeout=self.sender.submit_limit(wait),
            max_hold_seconds=math.inf if wait is None else wait.left,
            **options,
        )
        return await request.result(wait)

    async def submit(
        self,
        method: Method,
        device: DeviceLike,
        path: str,
        *,
        expiry_seconds: int | None,
        async_id: str | None,
        router: AsyncResponseRouter | None = None,
        timeout: float | None = None,
        max_hold_seconds: float = 0,
        **options: Unpack[RequestOptions],
    ) -> AsyncDeviceRequest:
        router = router or self.router
        identity = self.sender.clock.new_async_id() if async_id is None else async_id
        operation = partial(
            _operations.submit_device_request,
            async_id=identity,
            method=method,
            path=path,
            expiry_seconds=expiry_seconds,
            **options,
        )
        deadline = self.sender.deadline(timeout)
        await self.sender.prepare()  # asynchronous alone: the first model of all would hold the loop
        operation(ANY_ID)  # checks the arguments before the directory is queried
        device_id = await self.run(id_of(self.names, device, refresh=True), deadline)
        issued_at, clock = utc_now(), self.sender.clock
        started_seconds = clock.seconds()
        awaited_response = await router.expect(identity, deadline)
        with router.submitting(awaited_response, min(max_hold_seconds, deadline.left)) as wait_seconds:
            accepted = await self.run(send_to(device, operation(device_id, wait_seconds=wait_seconds)), deadline)
        if accepted.response is not None:
            router.accept(accepted.response)
        payload = options.get("payload")
        return AsyncDeviceRequest(
            async_id=identity,
            device_id=device_id,
            path=path,
            method=method,
            issued_at=issued_at,
            expiry_seconds=expiry_seconds,
            accepted_at=accepted.at,
            expires_at=accepted.expires_at,
            requested_value=None
            if payload is None or method != "PUT"
            else decode(payload, options.get("content_type"), path),
            _awaited_response=awaited_response,
            _started_seconds=clock.started_seconds(started_seconds, identity),
            _router=router,
            _device_name=name_passed(device, device_id),
        )

    @property
    def channel(self) -> Channel:
        if self.callbacks is not None:
            return "webhook"
        return "long polling" if self.sockets is None else "websocket"

    def reset(self) -> None:
        """Clear the cache of names and the position in the log, so that the session is like that of a new client."""
        self.names = NameCache()
        self.router = self.new_router(self.new_reader())

    def new_router(self, reader: AsyncLogReader) -> AsyncResponseRouter:
        clock = self.sender.clock
        matcher = ResponseMatcher(now=clock.now, clock=clock.received_seconds)
        return AsyncResponseRouter(reader, matcher, clock.waiting_seconds)

    def new_log_reader(self, after: int | None) -> AsyncLogReader:
        """Return a reader of the service's log, which uses a websocket if the client uses websockets."""
        if self.sockets is None:
            return AsyncLogReader(self.sender.send, after=after)
        from mirror_sdk._protocol.async_websocket_log_reader import AsyncWebsocketLogReader

        return AsyncWebsocketLogReader(self.sender.send, self.sockets, after=after)

    def new_reader(self, *, after: int | None = None) -> AsyncLogReader:
        if self.callbacks is None:
            return self.new_log_reader(after)
        if after is not None:
            raise ValueError(
                "a webhook only delivers new events, so after= is not available; omit it, or use long polling"
            )
        return self.callbacks.at(None)

    async def close_sockets(self) -> None:
        sockets, self.sockets = self.sockets, None
        if sockets is not None:
            await sockets.aclose()

    async def end(self, *, is_saved: bool) -> None:
        # In the reverse order of this list. All steps run even if one of them fails.
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.sender.aclose)
            closing.push_async_callback(self.close_sockets)
            if self.cassette is not None:
                closing.push_async_callback(self.cassette.end, is_saved=is_saved)
            # Watches and recorders end first. A recorder then still reads the rest of the log, which a cassette must
            # record.
            for watch in self.watches:
                closing.push_async_callback(watch.stop)
