# Made from async_notifications.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The notification channel of a client: ``client.notifications`` of a synchronous client."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, Unpack, overload

from mirror_sdk._arguments import TableFormat, table_module
from mirror_sdk._fork import import_locked
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.client_status import ClientStatus, status_of
from mirror_sdk._protocol.defaults import DEFAULT_IDLE_SECONDS
from mirror_sdk._protocol.log_consumers import ResponseRouter
from mirror_sdk._protocol.log_reader import LogReader
from mirror_sdk._protocol.response_matcher import ResponseMatcher
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk.client_groups.base import ClientGroup
from mirror_sdk.device_lookup import DevicesLike
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event
from mirror_sdk.table_formats import convert_tables

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    # Not imported at run time: the completion of Jupyter evaluates annotations of properties, and fails at a Literal.
    from mirror_sdk._protocol.client_status import Channel
    from mirror_sdk._session.table_options import EventsOptions
    from mirror_sdk.arrow_tables.arrow_types import ArrowTable
    from mirror_sdk.webhook import CallbackInbox


class Notifications(ClientGroup):
    """The notification channel and the received events: ``client.notifications`` of a synchronous client.

    - ``channel`` is its kind, and ``status()`` returns whether it works and what is pending.
    - ``use_webhook()``, ``use_websocket()`` and ``use_long_polling()`` choose the channel.
    - ``events_frame()`` returns the received events as a table.

    ``client.events()``, ``client.watch()`` and ``client.record()`` read events one by one.
    """

    _expression = "client.notifications"

    def __init__(self, session: ClientSession) -> None:
        super().__init__(session)
        self._tables = TableReader(session)

    @property
    def channel(self) -> Channel:
        """The kind of the notification channel: ``long polling``, ``webhook`` or ``websocket``.

        >>> client.notifications.channel
        'long polling'
        """
        return self._session.channel

    def status(self) -> ClientStatus:
        """Return whether the service responds, which channel is used and what is pending. It sends no request.

        >>> devices = client.devices.list()
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

    def use_webhook(self, receiver: CallbackInbox, *, url: str | None = None, timeout: float | None = None) -> None:
        """Receive notifications through a webhook from now on: events, and the responses to requests.

        Call this before sending requests and waiting for events. The service first delivers the stored notifications of
        this key that no program has read yet. An access key has one webhook. If several programs use the same key, use
        long polling instead. If another program registers its own webhook or removes this one, readers continue at
        their positions in the notification log, and nothing is lost. :meth:`status` reports the change as soon as a
        reader misses an entry. If the service has no notification log, readers raise :class:`~mirror_sdk.ChannelGone`.

        Args:
            receiver: A :class:`~mirror_sdk.WebhookReceiver`, or the inbox of your own application, which must
                already respond to requests.
            url: The address at which the service calls the receiver. A ``WebhookReceiver`` knows its address.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            BadRequest: The key has a poll channel, or the service cannot reach the URL or is not allowed to call it.
                Only its operator sees the details. A mirror calls its own machine only with
                ``--allow-callbacks-to 127.0.0.0/8``.
            ValueError: There is no address, or it cannot be registered.

        >>> with WebhookReceiver() as receiver:
        ...     client.notifications.use_webhook(receiver)
        ...     client.notifications.use_long_polling()
        """
        address = url or receiver.url
        if address is None:
            raise ValueError("pass url=, the address under which the service calls your application")
        import_locked("mirror_sdk.webhook.callback_reader")
        from mirror_sdk.webhook.callback_reader import CallbackReader
        from mirror_sdk.webhook.inbox import TOKEN_HEADER
        from mirror_sdk.webhook.registration import RegisteredWebhook, register

        # Read before the registration: the first entries may arrive before its response.
        position = receiver.last
        deadline = self._session.sender.deadline(timeout)
        self._session.router.catch_up(deadline)
        has_log = self._session.run(register(address, receiver.headers), deadline)
        log = LogReader(self._session.sender.send)
        if has_log:
            # After the registration, because the webhook receives all entries after this position.
            log.go_to_end(deadline)
        self._session.close_sockets()
        webhook = RegisteredWebhook(address, receiver.headers[TOKEN_HEADER], log.position)
        self._session.callbacks = CallbackReader(receiver, webhook, self._session.sender.send, position)
        self._session.router = ResponseRouter(self._session.callbacks, ResponseMatcher())

    def use_websocket(self, *, timeout: float | None = None) -> None:
        """Receive notifications through websockets from now on. Use this if a proxy cuts long polls.

        Call this before sending requests and waiting for events; earlier readers continue with long polling. Events,
        responses, watches and recordings come in the same order as with long polling, and gaps are reported in the same
        way. Each reader has its own websocket and position. So it takes no entries away from other programs with this
        key. If a websocket closes, the client reopens it at the reader's position, with increasing pauses. The client
        does not switch back to long polling by itself.

        The websocket uses the proxy that the environment names, if any.

        Args:
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            MirrorError: No websocket is available: the service has none or does not respond, or the key is wrong.
            InvalidValue: A cassette is in use, or the client was created with ``transport=``.

        >>> client.notifications.use_websocket()
        >>> client.notifications.status().channel
        'websocket'
        >>> client.notifications.use_long_polling()
        """
        if not self._session.sender.is_on_network:
            raise InvalidValue(
                "a websocket cannot be combined with a cassette or transport=; use a client without them"
            )
        deadline = self._session.sender.deadline(timeout)
        import_locked("mirror_sdk._protocol.websocket_log_reader")
        from mirror_sdk._protocol.log_websockets import LogWebsockets
        from mirror_sdk._protocol.websocket_log_reader import WebsocketLogReader
        from mirror_sdk._protocol.websocket_messages import WebsocketEndpoint

        endpoint = WebsocketEndpoint(self._session.sender.base_url, self._session.sender.api_key)
        sockets = LogWebsockets(endpoint, self._session.sender.contact, self._session.sender.timeout_seconds)
        reader = WebsocketLogReader(self._session.sender.send, sockets)
        try:
            # Before anything is replaced, so that the present channel stays if websockets are unavailable.
            reader.open(deadline)
        except BaseException:
            sockets.close()
            raise
        self._session.close_sockets()
        self._session.callbacks = None
        self._session.sockets = sockets
        self._session.router = self._session.new_router(reader)

    def use_long_polling(self, *, timeout: float | None = None) -> None:
        """Remove the webhook of this application, close its websockets, and use long polling, which is the default.

        >>> client.notifications.use_long_polling()
        """
        self._session.sender.send(_operations.delete_callback(), timeout)
        self._session.close_sockets()
        self._session.callbacks = None
        self._session.router = ResponseRouter(LogReader(self._session.sender.send), ResponseMatcher())

    def delete_poll_channel(self, *, timeout: float | None = None) -> None:
        """Delete the long-polling channel of this application and end every open poll.

        >>> client.notifications.delete_poll_channel()
        """
        self._session.sender.send(_operations.delete_poll_channel(), timeout)

    @overload
    def events_frame(self, *, as_: Literal["pandas"] = "pandas", **options: Unpack[EventsOptions]) -> pd.DataFrame: ...

    @overload
    def events_frame(self, *, as_: Literal["arrow"], **options: Unpack[EventsOptions]) -> ArrowTable: ...

    @overload
    def events_frame(self, *, as_: Literal["polars"], **options: Unpack[EventsOptions]) -> pl.DataFrame: ...

    def events_frame(
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

        ``after=0`` with a short ``timeout`` returns the whole stored notification log, usually a day.
        ``attrs["mirror"]["position"]`` is the position after the last event; pass it as ``after=`` to get the next
        table. Events do not contain the unit of a sensor. Each row gets the unit that the device last reported in
        resource 5701; rows before the first such report have no unit. If the table contains no report of this resource,
        it uses the current unit in the mirror, if the key may read it.

        Args:
            timeout: Seconds without any event after which the table ends; an outage does not count.
            outage_timeout: Seconds that the service may be out of reach, as for ``client.events()``.
            limit: The maximum number of events to return.
            after: The number of an entry to start after, instead of the end of the log.
            paths: Path patterns (``/3303/*``). Only observations of these paths are returned, plus gaps and unknown
                entries.
            devices: Only events of these devices, their ids or endpoint names. Gaps and unknown entries are always
                included.
            raw: Whether the column ``value_raw`` has the payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            MirrorError: A request failed for a reason that a retry would not fix, or for longer than
                ``outage_timeout``.
            NotFound: A device does not exist.
            TypeError: A single string was passed instead of a list.
            InvalidValue: ``tz`` is not a time zone, or ``timeout``, ``limit``, ``after`` or a pattern is not valid.

        >>> client.notifications.events_frame(after=0, timeout=0)["event"].tolist()
        ['registration', 'registration']
        >>> client.notifications.events_frame(after=0, timeout=0, as_="arrow")["event"].to_pylist()
        ['registration', 'registration']
        """
        # Start before pandas is imported, so that no event of that time is missed.
        with self._session.open_events(
            timeout=timeout, outage_timeout=outage_timeout, limit=limit, after=after, paths=paths, devices=devices
        ) as events:
            import_locked(table_module(as_), "mirror_sdk.arrow_tables.events")
            from mirror_sdk.arrow_tables.events import EVENTS_AT_A_TIME, EventsTableBuilder

            parts = EventsTableBuilder(raw=raw)
            events._buffer.skipped = parts.skip
            batch: list[Event] = []
            for event in events:
                batch.append(event)
                if len(batch) == EVENTS_AT_A_TIME:
                    parts.add(batch)
                    batch = []
        if batch:
            parts.add(batch)
        state = self._tables.units_of(parts.unitless())
        tables, metadata = parts.finish(server=self._session.base_url, position=events.position, state=state)
        return convert_tables(tables, metadata, as_=as_, tz=tz)
