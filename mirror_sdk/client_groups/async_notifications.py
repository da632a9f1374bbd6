"""The notification channel of a client: ``client.notifications`` of an asynchronous client."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, Unpack, overload

from mirror_sdk._arguments import TableFormat, table_module
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.async_log_consumers import AsyncResponseRouter
from mirror_sdk._protocol.async_log_reader import AsyncLogReader
from mirror_sdk._protocol.client_status import ClientStatus, status_of
from mirror_sdk._protocol.defaults import DEFAULT_IDLE_SECONDS
from mirror_sdk._protocol.response_matcher import ResponseMatcher
from mirror_sdk._run_in_thread import import_in_thread, run_in_thread
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk._session.async_table_reader import AsyncTableReader
from mirror_sdk.client_groups.base import AsyncClientGroup
from mirror_sdk.device_lookup import DevicesLike
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event
from mirror_sdk.table_formats import convert_tables

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    # Not imported at run time: Jupyter's completion evaluates annotations of properties, and fails at a Literal.
    from mirror_sdk._protocol.client_status import Channel
    from mirror_sdk._session.table_options import EventsOptions
    from mirror_sdk.arrow_tables.arrow_types import ArrowTable
    from mirror_sdk.webhook import CallbackInbox


class AsyncNotifications(AsyncClientGroup):
    """The notification channel and the received events: ``client.notifications`` of an asynchronous client.

    - ``channel`` is the kind of the channel. ``status()`` returns its status and the number of pending responses.
    - ``use_webhook()``, ``use_websocket()`` and ``use_long_polling()`` choose the channel.
    - ``events_frame()`` returns the received events as a table.

    ``client.events()``, ``client.watch()`` and ``client.record()`` read events one by one.
    """

    _expression = "client.notifications"

    def __init__(self, session: AsyncClientSession) -> None:
        super().__init__(session)
        self._tables = AsyncTableReader(session)

    @property
    def channel(self) -> Channel:
        """The kind of the notification channel: ``long polling``, ``webhook`` or ``websocket``.

        >>> client.notifications.channel
        'long polling'
        """
        return self._session.channel

    def status(self) -> ClientStatus:
        """Return the status of the connection, the notification channel in use and the number of pending responses.

        This method does not send a request.

        >>> devices = await client.devices.list()
        >>> client.notifications.status().channel
        'long polling'
        """
        return status_of(
            self._session.base_url,
            self._session.sender.contact,
            self._session.router.reader,
            self._session.router.matcher,
            channel=self._session.channel,
            is_channel_replaced=self._session.callbacks is not None and self._session.callbacks.webhook.is_replaced,
            watches=sum(watch.is_running for watch in self._session.watches),
        )

    async def use_webhook(
        self, receiver: CallbackInbox, *, url: str | None = None, timeout: float | None = None
    ) -> None:
        """Receive notifications, which are events and responses to requests, through a webhook from now on.

        Call this method before you send requests and wait for events. The service first delivers the stored
        notifications of this access key that no program has read yet.

        An access key has only one webhook. If several programs use one key, use long polling instead. If another
        program registers its own webhook or removes this one, readers continue at their positions in the notification
        log, and nothing is lost. :meth:`status` reports the change as soon as a reader misses an entry. If the service
        has no notification log, readers raise :class:`~mirror_sdk.ChannelGone`.

        Args:
            receiver: A :class:`~mirror_sdk.WebhookReceiver`, or the inbox of your own web application. The application
                must already respond to requests.
            url: The address at which the service calls the webhook. The default is the address of the
                ``WebhookReceiver``.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            BadRequest: The key has a poll channel, or the service cannot reach the URL or is not allowed to call it.
                Only the operator of the service sees the details. A mirror calls its own machine only with
                ``--allow-callbacks-to 127.0.0.0/8``.
            ValueError: The receiver has no address and ``url`` is missing, or the address cannot be registered.

        >>> with WebhookReceiver() as receiver:
        ...     await client.notifications.use_webhook(receiver)
        ...     await client.notifications.use_long_polling()
        """
        address = url or receiver.url
        if address is None:
            raise ValueError("pass url=, the address at which the service calls your application")
        await import_in_thread("mirror_sdk.webhook.async_callback_reader")
        from mirror_sdk.webhook.async_callback_reader import AsyncCallbackReader
        from mirror_sdk.webhook.inbox import TOKEN_HEADER
        from mirror_sdk.webhook.registration import RegisteredWebhook, register

        # Read before the registration, because the first entries may arrive before the response to it.
        position = receiver.last
        deadline = self._session.sender.deadline(timeout)
        await self._session.router.catch_up(deadline)
        has_log = await self._session.run(register(address, receiver.headers), deadline)
        log = AsyncLogReader(self._session.sender.send)
        if has_log:
            # After the registration, because the webhook receives all entries after this position.
            await log.go_to_end(deadline)
        await self._session.close_sockets()
        webhook = RegisteredWebhook(address, receiver.headers[TOKEN_HEADER], log.position)
        self._session.callbacks = AsyncCallbackReader(receiver, webhook, self._session.sender.send, position)
        self._session.router = AsyncResponseRouter(self._session.callbacks, ResponseMatcher())

    async def use_websocket(self, *, timeout: float | None = None) -> None:
        """Receive notifications through websockets from now on. This helps if a proxy interrupts long polls.

        Call this method before you send requests and wait for events, because earlier readers continue with long
        polling. Events, responses, watches and recordings arrive in the same order as with long polling, and gaps are
        reported in the same way. Each reader has its own websocket and position, so it does not consume entries of
        other programs with this access key.

        If a websocket closes, the client reopens it at the reader's position, with increasing pauses. The client does
        not switch back to long polling by itself.

        The websocket uses the proxy of the environment variables, if one is set.

        Args:
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            MirrorError: The service has no websockets or does not respond, or the access key is wrong.
            InvalidValue: A cassette is in use, or the client was created with ``transport=``.

        >>> await client.notifications.use_websocket()
        >>> client.notifications.status().channel
        'websocket'
        >>> await client.notifications.use_long_polling()
        """
        if not self._session.sender.is_on_network:
            raise InvalidValue(
                "a websocket cannot be combined with a cassette or transport=; use a client without them"
            )
        deadline = self._session.sender.deadline(timeout)
        await import_in_thread("mirror_sdk._protocol.async_websocket_log_reader")
        from mirror_sdk._protocol.async_log_websockets import AsyncLogWebsockets
        from mirror_sdk._protocol.async_websocket_log_reader import AsyncWebsocketLogReader
        from mirror_sdk._protocol.websocket_messages import WebsocketEndpoint

        endpoint = WebsocketEndpoint(self._session.sender.base_url, self._session.sender.api_key)
        sockets = AsyncLogWebsockets(endpoint, self._session.sender.contact, self._session.sender.timeout_seconds)
        reader = AsyncWebsocketLogReader(self._session.sender.send, sockets)
        try:
            # Before anything is replaced, so that the current channel stays if websockets are unavailable.
            await reader.open(deadline)
        except BaseException:
            await sockets.aclose()
            raise
        await self._session.close_sockets()
        self._session.callbacks = None
        self._session.sockets = sockets
        self._session.router = self._session.new_router(reader)

    async def use_long_polling(self, *, timeout: float | None = None) -> None:
        """Switch back to long polling, which is the default. This removes the webhook and closes the websockets.

        >>> await client.notifications.use_long_polling()
        """
        await self._session.sender.send(_operations.delete_callback(), timeout)
        await self._session.close_sockets()
        self._session.callbacks = None
        self._session.router = AsyncResponseRouter(AsyncLogReader(self._session.sender.send), ResponseMatcher())

    async def delete_poll_channel(self, *, timeout: float | None = None) -> None:
        """Delete the long-polling channel of this application and end all open polls.

        >>> await client.notifications.delete_poll_channel()
        """
        await self._session.sender.send(_operations.delete_poll_channel(), timeout)

    @overload
    async def events_frame(
        self, *, as_: Literal["pandas"] = "pandas", **options: Unpack[EventsOptions]
    ) -> pd.DataFrame: ...

    @overload
    async def events_frame(self, *, as_: Literal["arrow"], **options: Unpack[EventsOptions]) -> ArrowTable: ...

    @overload
    async def events_frame(self, *, as_: Literal["polars"], **options: Unpack[EventsOptions]) -> pl.DataFrame: ...

    async def events_frame(
        self,
        *,
        timeout: float = DEFAULT_IDLE_SECONDS,
        outage_timeout: float | None = None,
        limit: int | None = None,
        after: int | None = None,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        raw: bool = False,
        tz: str | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the events of ``client.events()`` as a table; see :func:`mirror_sdk.frames.events_frame`.

        ``after=0`` with a short ``timeout`` returns the whole stored notification log, which usually covers one day.
        ``attrs["mirror"]["position"]`` is the position after the last event. Pass it as ``after=`` to get the next
        table.

        Events do not contain units, so the units come from resource 5701 of the same sensor. Each row gets the unit
        that the device last reported before it, and earlier rows have no unit. If the table contains no report of
        resource 5701, the current unit in the mirror is used, provided that the access key may read it.

        Args:
            timeout: The table ends after this many seconds without an event. An outage of the service does not count as
                time without an event.
            outage_timeout: The call raises an error if the service is unreachable for more than this many seconds; see
                ``client.events()``.
            limit: The maximum number of events to return.
            after: The number of the entry after which the table starts. The default is the end of the log.
            paths: Patterns for the resource paths, such as ``/3303/*``. Only observations of these paths are returned,
                plus gaps and unknown entries.
            devices: Return only events of these devices, plus gaps and unknown entries. Pass ids or endpoint names.
            raw: Whether to add the column ``value_raw`` with the payloads.
            tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
            as_: The kind of table to return: ``pandas`` (a ``pandas.DataFrame``), ``arrow`` (a ``pyarrow.Table``) or
                ``polars`` (a ``polars.DataFrame``).

        Raises:
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            MirrorError: A request failed for a reason that a retry would not fix, or failed for longer than
                ``outage_timeout``.
            NotFound: A device does not exist.
            TypeError: A string was passed instead of a list of strings.
            InvalidValue: ``tz`` is not a time zone, or ``timeout``, ``limit``, ``after`` or a pattern is not valid.

        >>> (await client.notifications.events_frame(after=0, timeout=0))["event"].tolist()
        ['registration', 'registration']
        >>> (await client.notifications.events_frame(after=0, timeout=0, as_="arrow"))["event"].to_pylist()
        ['registration', 'registration']
        """
        # Start before pandas is imported, so that no event is missed during the import.
        async with self._session.open_events(
            timeout=timeout, outage_timeout=outage_timeout, limit=limit, after=after, paths=paths, devices=devices
        ) as events:
            await import_in_thread(table_module(as_), "mirror_sdk.arrow_tables.events")
            from mirror_sdk.arrow_tables.events import EVENTS_AT_A_TIME, EventsTableBuilder

            parts = await run_in_thread(EventsTableBuilder, raw=raw)
            events._buffer.skipped = parts.skip
            batch: list[Event] = []
            async for event in events:
                batch.append(event)
                if len(batch) == EVENTS_AT_A_TIME:
                    await run_in_thread(parts.add, batch)
                    batch = []
        if batch:
            await run_in_thread(parts.add, batch)
        state = await self._tables.units_of(await run_in_thread(parts.unitless))
        tables, metadata = await run_in_thread(
            parts.finish, server=self._session.base_url, position=events.position, state=state
        )
        return await run_in_thread(lambda: convert_tables(tables, metadata, as_=as_, tz=tz))
