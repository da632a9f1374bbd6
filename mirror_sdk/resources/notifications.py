# Made from async_notifications.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The notification channel of a client: ``client.notifications`` of a synchronous client."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, Unpack, overload

from mirror_sdk._arguments import Form, module_for
from mirror_sdk._fork import import_whole
from mirror_sdk._service import operations as _operations
from mirror_sdk._service.channels import AnswerPump
from mirror_sdk._service.defaults import (
    DEFAULT_IDLE_SECONDS,
)
from mirror_sdk._service.inbox import Inbox
from mirror_sdk._service.log_reader import LogReader
from mirror_sdk._service.status import ClientStatus, status_of
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk.errors import (
    ValueRefused,
)
from mirror_sdk.events import Event
from mirror_sdk.forms import given
from mirror_sdk.naming import (
    DevicesLike,
)
from mirror_sdk.resources.base import ClientResource

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from mirror_sdk._session.table_options import EventsOptions
    from mirror_sdk.tables.arrow_types import ArrowTable
    from mirror_sdk.webhook import CallbackInbox


class Notifications(ClientResource[ClientSession]):
    """The channel by which notifications come, and what came: ``client.notifications`` of a synchronous client.

    ``client.events()``, ``client.watch()`` and ``client.record()`` read them one by one.
    """

    def __init__(self, session: ClientSession) -> None:
        super().__init__(session)
        self._tables = TableReader(session)

    def status(self) -> ClientStatus:
        """How this client stands: whether the service answers, which channel is used, what waits. It asks nobody.

        >>> devices = client.devices.list()
        >>> client.notifications.status().channel
        'long polling'
        """
        return status_of(
            self._session.base_url,
            self._session.sender.contact,
            self._session.pump.reader,
            self._session.pump.inbox,
            channel=self._session.channel,
            is_channel_replaced=self._session.callbacks is not None and self._session.callbacks.is_replaced,
            watches=sum(watch.is_running for watch in self._session.watches),
        )

    def use_webhook(self, receiver: CallbackInbox, *, url: str | None = None, timeout: float | None = None) -> None:
        """Have notifications sent to a webhook from now on; events and answers then come from there.

        To be called before requests are made and events are waited for. What the service has kept for this key and
        nobody has read comes first. A key has one webhook: where several programs use one key, long polling serves them
        all. When another program registers its own or removes this one, ``status()`` says so as soon as something was
        missed. Readers go on at their positions in the notification log, so that they lose nothing. With a service that
        has no such log, they raise :class:`ChannelGone`.

        Args:
            receiver: A :class:`~mirror_sdk.webhook.WebhookReceiver`, or the inbox of an application of your own, which
                must answer already.
            url: Under which address the service calls it; a ``WebhookReceiver`` knows its own.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            BadRequest: The service cannot reach the URL or may not call it, which its operator alone is told (a mirror
                calls its own machine with ``--allow-callbacks-to 127.0.0.0/8`` only), or the key has a poll channel.
            ValueError: There is no address, or it cannot be registered.

        Source: specification E4; wire.md 4.

        >>> with WebhookReceiver() as receiver:
        ...     client.notifications.use_webhook(receiver)
        ...     client.notifications.use_long_polling()
        """
        address = url or receiver.url
        if address is None:
            raise ValueError("give url=, the address under which the service calls your application")
        import_whole("mirror_sdk.webhook")
        from mirror_sdk.webhook import TOKEN_HEADER, CallbackReader, RegisteredWebhook, registered

        position = receiver.last
        deadline = self._session.sender.deadline(timeout)
        self._session.pump.catch_up(deadline)
        has_log = self._session.run(registered(address, receiver.headers), deadline)
        log = LogReader(self._session.send)
        if has_log:
            log.go_to_end(deadline)
        self._session.close_sockets()
        token = receiver.headers[TOKEN_HEADER]
        self._session.callbacks = CallbackReader(
            receiver, RegisteredWebhook(address, token, self._session.send, log if has_log else None)
        ).beside(position)
        self._session.pump = AnswerPump(self._session.callbacks, Inbox())

    def use_websocket(self, *, timeout: float | None = None) -> None:
        """Have notifications come by websockets from now on: to be chosen where a proxy cuts long polls.

        To be called before requests are made and events are waited for; what was begun before goes on by long polling.
        Events, answers, watches and recordings come as they do by long polling, in the same order and with the same
        word on what was lost: each reader has a websocket and its own position, so that it takes nothing from other
        programs with this key, and needs no channel of its own. A websocket that ends is made again, with growing
        pauses, and goes on behind what was read; nothing falls back to long polling by itself.

        Where the environment names a proxy, the websocket goes through it.

        Args:
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            MirrorError: There is no websocket to be had: the service has none or does not answer, or the key is wrong.
            ValueRefused: There is a cassette in the client, or it sends over a transport of its own.

        Source: wire.md 4.

        >>> client.notifications.use_websocket()
        >>> client.notifications.status().channel
        'websocket'
        >>> client.notifications.use_long_polling()
        """
        if not self._session.sender.is_on_network:
            raise ValueRefused("a websocket goes over the network, past a cassette and past transport=; leave that out")
        deadline = self._session.sender.deadline(timeout)
        import_whole("mirror_sdk._service.socket_reader")
        from mirror_sdk._service.socket_messages import Way
        from mirror_sdk._service.socket_reader import SocketReader
        from mirror_sdk._service.sockets import Sockets

        way = Way(self._session.sender.base_url, self._session.sender.api_key)
        sockets = Sockets(way, self._session.sender.contact, self._session.sender.timeout_seconds)
        reader = SocketReader(self._session.send, sockets)
        try:
            reader.open(deadline)
        except BaseException:
            sockets.close()
            raise
        self._session.close_sockets()
        self._session.callbacks = None
        self._session.sockets = sockets
        self._session.pump = self._session.new_pump(reader)

    def use_long_polling(self, *, timeout: float | None = None) -> None:
        """Remove the webhook of this application, or close its websockets, and read by long polling, as at first.

        Source: specification E4; wire.md 4.

        >>> client.notifications.use_long_polling()
        """
        self._session.send(_operations.delete_callback(), timeout)
        self._session.close_sockets()
        self._session.callbacks = None
        self._session.pump = AnswerPump(LogReader(self._session.send), Inbox())

    def delete_poll_channel(self, *, timeout: float | None = None) -> None:
        """End the long-polling channel of this application and every poll that is open. Source: wire.md 4.

        >>> client.notifications.delete_poll_channel()
        """
        self._session.send(_operations.delete_poll_channel(), timeout)

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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The events table of what :meth:`events` gives; see :func:`mirror_sdk.frames.events_frame`.

        ``after=0`` with a short ``timeout`` gives all that is kept of the notification log, a day as a rule.
        ``attrs["mirror"]["position"]`` is the number to go on behind: the next table is that of ``after=`` this one.
        The unit of a sensor is no part of an event. It is the one that an earlier event of resource 5701 names, and
        missing before the first of these events. Without any it is the one that the mirror has now, and missing where
        that may not be read.

        Args:
            timeout: Seconds without any event after which the table ends; an outage does not count.
            outage_timeout: Seconds that the service may be out of reach, as for :meth:`events`.
            limit: How many events at most.
            after: Number of an entry to go on behind, instead of at the end of the log.
            paths: Path patterns (``/3303/*``): only observations of these.
            devices: Only events of these devices, their ids or endpoint names. Gaps and unknown entries are always
                given.
            raw: Whether the payloads stand in ``value_raw``.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ImportError: What the form needs, such as pandas, is not installed.
            MirrorError: A failure that asking again would not mend, or one that outlasted ``outage_timeout``.
            NotFound: There is no such device.
            TypeError: A single text was given where a list of texts belongs.
            ValueRefused: ``tz`` is no time zone, a time-out no span of time, ``limit`` no number of events,
                ``after`` none of an entry, or a pattern is none.

        >>> client.notifications.events_frame(after=0, timeout=0)["event"].tolist()
        ['registration', 'registration']
        >>> client.notifications.events_frame(after=0, timeout=0, as_="arrow")["event"].to_pylist()
        ['registration', 'registration']
        """
        # It begins before pandas is imported, so that nothing is missed meanwhile.
        with self._session.open_events(
            timeout=timeout, outage_timeout=outage_timeout, limit=limit, after=after, paths=paths, devices=devices
        ) as events:
            import_whole(module_for(as_), "mirror_sdk.tables.events")
            from mirror_sdk.tables.events import EVENTS_AT_A_TIME, EventParts

            parts = EventParts(raw=raw)
            events._unread.skipped = parts.skip
            some: list[Event] = []
            for event in events:
                some.append(event)
                if len(some) == EVENTS_AT_A_TIME:
                    parts.add(some)
                    some = []
        if some:
            parts.add(some)
        state = self._tables.units_of(parts.unitless())
        tables, about = parts.finish(server=self._session.base_url, position=events.position, state=state)
        return given(tables, about, as_=as_, tz=tz)
