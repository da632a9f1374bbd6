"""The methods of an asynchronous client that read events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._caller import calling_line
from mirror_sdk._off_loop import import_off_loop
from mirror_sdk._protocol.async_channels import AsyncEvents, AsyncWatch
from mirror_sdk._protocol.defaults import DEFAULT_IDLE_SECONDS, DEFAULT_ROTATE_BYTES, DEFAULT_ROTATE_SECONDS
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk._session.async_table_reader import AsyncTableReader
from mirror_sdk.events import Event, event_filter
from mirror_sdk.naming import DevicesLike

if TYPE_CHECKING:
    from os import PathLike

    from mirror_sdk.recording import AsyncRecorder


class AsyncEventMethods:
    """Reads, watches and records events."""

    _session: AsyncClientSession
    _tables: AsyncTableReader

    def events(
        self,
        *,
        timeout: float = DEFAULT_IDLE_SECONDS,
        outage_timeout: float | None = None,
        limit: int | None = None,
        after: int | None = None,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
    ) -> AsyncEvents:
        """Events as they come, from the moment of this call on; each iterator has its own position in the log.

        They come in the order of the log. ``position`` of what this gives is the number to go on behind: a program may
        stop anywhere, and go on with ``after=events.position`` without loss or repetition. Lost entries are an event of
        the kind ``gap`` and a :class:`GapWarning`. Connection failures are waited out.

        Values come of what a rule or a subscription of this key covers, and of nothing else: without
        ``client.subscriptions.rules.add()`` (``apply_now=True`` for the devices there are) or :meth:`subscribe` none
        ever does. Registrations, and answers to requests of this key, come in any case.

        What this client is asked for afterwards is sent after they began; what others cause meanwhile is seen for sure
        with ``async with client.events() as events:``, which waits until they have.

        Args:
            timeout: Seconds without any event after which the iteration ends; 0 gives what is there already. An outage
                does not count.
            outage_timeout: Seconds that the service may be out of reach before its failure is raised. By default an
                outage is waited out, however long it takes; with ``timeout=0`` it is raised at once.
            limit: How many events at most.
            after: Number of an entry (``position``, ``Event.seq``) to go on behind, instead of at the end of the log.
            paths: Path patterns (``/3303/*``): only observations of these.
            devices: Only events of these devices, their ids or endpoint names, which are looked up now. Gaps and
                unknown entries are always given.

        Raises:
            MirrorError: While iterating: a failure that asking again would not mend, or one that outlasted
                ``outage_timeout``.
            NotFound: There is no such device.
            TypeError: A single text was given where a list of texts belongs.
            InvalidValue: A time-out is no span of time, ``limit`` no number of events, ``after`` none of an entry, or
                a pattern is none.

        Source: specification 6; wire.md 4.

        >>> events = client.events(limit=1)
        >>> await client.subscribe(station, "/3303/0/5700")
        >>> [(event.endpoint_name, event.path, event.value.python) async for event in events]
        [('station-01', '/3303/0/5700', 21.5)]
        >>> [event async for event in client.events(after=events.position, timeout=0)]
        []
        """
        return self._session.open_events(
            timeout=timeout, outage_timeout=outage_timeout, limit=limit, after=after, paths=paths, devices=devices
        )

    async def watch(
        self,
        callback: Callable[[Event], object],
        *,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        timeout: float | None = None,
    ) -> AsyncWatch:
        """Call back for each event from now on, on a task of its own, until the watch is stopped.

        Values come of what a rule or a subscription of this key covers, as :meth:`events` says.

        Args:
            callback: Takes an event, and may be an ``async`` function. What it raises is logged and kept in
                ``AsyncWatch.errors``.
            paths: Path patterns (``/3303/*``): only observations of these.
            devices: Only events of these devices, their ids or endpoint names, which are looked up now. Gaps and
                unknown entries are always told.
            timeout: Seconds until it has begun, instead of the client's.

        Raises:
            TypeError: ``callback`` cannot be called, or a single text was given where a list of texts belongs.
            InvalidValue: A pattern is none.

        Source: wire.md 4.

        >>> async with await client.watch(print) as watch:
        ...     print(watch.is_running)
        True
        """
        if not callable(callback):
            raise TypeError(f"callback={callback!r} cannot be called; give a function that takes an event")
        deadline = self._session.sender.deadline(timeout)
        wanted = None if devices is None else frozenset(await self._session.ids_of(devices, timeout=deadline))
        wants = event_filter(paths, wanted)
        reader = self._session.new_reader()
        await reader.go_to_end(deadline)
        watch = AsyncWatch(reader, callback, wants, self._session.sender.moments.now)
        self._session.watches.add(watch)
        return watch

    async def record(
        self,
        path: str | PathLike[str],
        *,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        subscribe: bool = False,
        rotate_bytes: int = DEFAULT_ROTATE_BYTES,
        rotate_seconds: float = DEFAULT_ROTATE_SECONDS,
        timeout: float | None = None,
    ) -> AsyncRecorder:
        """Record the log from now on, on a task of its own, until the recorder is stopped.

        The recording is a folder of Parquet files, and nothing else, which pandas, Arrow, DuckDB, Polars and Dask read
        as one table at every moment: what was recorded until ``rotate_seconds`` ago, or less. What is newer, and the
        state tables from the beginning and after each loss, stand beside it (``_run.parquet.mirror``; copy and remove
        both together), and :class:`mirror_sdk.recording.Recording` reads all of it. Where a recorder was stopped or
        killed, the next one with the same folder goes on in the log; a day of it is kept as a rule. What was lost is a
        row of the kind ``gap``.

        Args:
            path: The folder, such as ``run.parquet``.
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes
                all, also those to come.
            paths: Path patterns (``/3303/*``): only observations of these; ``None`` takes every event. A pattern of
                which no rule and no subscription of this key covers anything, of some device, is told as a
                :class:`NotSubscribedWarning`: nothing of it comes.
            subscribe: Whether rules for these devices and paths are added, and applied now, for as long as it records;
                see ``client.subscriptions.rules.add()``. Those that were there already stay, or go with the recorder
                that added them. Devices send what was subscribed until they register anew. Where the recorder is killed
                the rules stay, until the next one with the same folder ends.
            rotate_bytes: How large a file may become before the next one is begun.
            rotate_seconds: After how many seconds an event stands in a file that every program sees.
            timeout: Seconds until it has begun, instead of the client's for each request.

        Raises:
            ImportError: pandas is not installed.
            NotFound: There is no such device.
            OSError: The folder cannot be written.
            RecordingDamaged: A file of the recording in the folder is not as it was written; the message names it.
            TypeError: A single text was given where a list of texts belongs.
            InvalidValue: There is something else in the folder, a recording of something else, or another recorder at
                work; or an argument is no size, span or pattern; or ``subscribe`` would make more rules than a key can
                have.

        Source: specification 6; wire.md 4.

        >>> async with await client.record(folder / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
        ...     print(await client.subscriptions.rules.list())
        [PresubscriptionRule(endpoint_name=None, endpoint_type=None, resource_path=['/3303/*'])]
        >>> (await asyncio.to_thread(recorder.audit)).complete
        True
        >>> await client.subscriptions.rules.list()
        []
        """
        await import_off_loop("mirror_sdk.recording.async_recorder")
        from mirror_sdk.recording.async_recorder import begin_recording
        from mirror_sdk.recording.rules import RecordingRules
        from mirror_sdk.recording.writer import RecordingWriter

        whole = self._session.sender.whole(timeout)
        chosen = None if devices is None else await self._session.ids_of(devices, timeout=whole)
        make_writer = partial(
            RecordingWriter,
            path,
            server=self._session.base_url,
            key=self._session.key_mark,
            devices=chosen,
            paths=paths,
            rotate_bytes=rotate_bytes,
            rotate_seconds=rotate_seconds,
            called_from=calling_line(),
        )
        recorder = await begin_recording(
            make_writer,
            self._session.new_log_reader,
            lambda within: self._tables.state_to_record(chosen, paths, within),
            self._session.run,
            RecordingRules(chosen, paths, adds_rules=subscribe),
            whole,
        )
        self._session.watches.add(recorder)
        return recorder
