# Made from async_event_methods.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The methods of a synchronous client that read events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._caller import calling_line
from mirror_sdk._fork import import_locked
from mirror_sdk._protocol.channels import Events, Watch
from mirror_sdk._protocol.defaults import DEFAULT_IDLE_SECONDS, DEFAULT_ROTATE_BYTES, DEFAULT_ROTATE_SECONDS
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk.events import Event, event_filter
from mirror_sdk.naming import DevicesLike

if TYPE_CHECKING:
    from os import PathLike

    from mirror_sdk.recording import Recorder


class EventMethods:
    """Reads, watches and records events."""

    _session: ClientSession
    _tables: TableReader

    def events(
        self,
        *,
        timeout: float = DEFAULT_IDLE_SECONDS,
        outage_timeout: float | None = None,
        limit: int | None = None,
        after: int | None = None,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
    ) -> Events:
        """Iterate over events as they arrive, from this call on. Each iterator has a position of its own in the log.

        Events come in the order of the log. ``position`` of the iterator is the number of the last entry it has
        returned: a program may stop anywhere and continue with ``after=events.position``, without loss or repetition.
        Lost entries are an event of the kind ``gap`` and a :class:`GapWarning`. The iterator waits while the connection
        fails.

        Only values of resources that a rule or a subscription of this key covers arrive. Add rules with
        ``client.subscriptions.rules.add()``, with ``apply_now=True`` for devices that are already registered, or call
        :meth:`subscribe`. Registrations, and responses to requests of this key, always arrive.

        Args:
            timeout: Seconds without any event after which the iteration ends; 0 returns only what is there already. An
                outage does not count.
            outage_timeout: Seconds that the service may be unreachable before the failure is raised. By default the
                iterator waits as long as it takes; with ``timeout=0`` the failure is raised at once.
            limit: The maximum number of events to return.
            after: The number of an entry (``position``, ``Event.seq``) to start after, instead of the end of the log.
            paths: Path patterns (``/3303/*``). All events other than observations of these paths are left out.
            devices: Only events of these devices, their ids or endpoint names, which are looked up now. Gaps and
                unknown entries are always included.

        Raises:
            MirrorError: While iterating: a failure that a repeated request would not fix, or one that outlasted
                ``outage_timeout``.
            NotFound: A device does not exist.
            TypeError: A single string was passed instead of a list.
            InvalidValue: A time limit, ``limit``, ``after`` or a pattern is not valid.

        Source: specification 6; wire.md 4.

        >>> events = client.events(limit=1)
        >>> client.subscribe(station, "/3303/0/5700")
        >>> [(event.endpoint_name, event.path, event.value.python) for event in events]
        [('station-01', '/3303/0/5700', 21.5)]
        >>> [event for event in client.events(after=events.position, timeout=0)]
        []
        """
        return self._session.open_events(
            timeout=timeout, outage_timeout=outage_timeout, limit=limit, after=after, paths=paths, devices=devices
        )

    def watch(
        self,
        callback: Callable[[Event], object],
        *,
        paths: Collection[str] | None = None,
        devices: DevicesLike | None = None,
        timeout: float | None = None,
    ) -> Watch:
        """Call back for each event from now on, on a thread of its own, until the watch is stopped.

        Only values of resources that a rule or a subscription of this key covers arrive; see :meth:`events`.

        Args:
            callback: Takes an event. Errors that it raises are logged and stored in ``Watch.errors``.
            paths: Path patterns (``/3303/*``). All events other than observations of these paths are left out.
            devices: Only events of these devices, their ids or endpoint names, which are looked up now. Gaps and
                unknown entries are always included.
            timeout: Seconds within which it must start, instead of the client's.

        Raises:
            TypeError: ``callback`` cannot be called, or a single string was passed instead of a list.
            InvalidValue: A pattern is not valid.

        Source: wire.md 4.

        >>> with client.watch(print) as watch:
        ...     print(watch.is_running)
        True
        """
        if not callable(callback):
            raise TypeError(f"callback={callback!r} cannot be called; pass a function that takes an event")
        deadline = self._session.sender.deadline(timeout)
        device_ids = None if devices is None else frozenset(self._session.ids_of(devices, timeout=deadline))
        accepts = event_filter(paths, device_ids)
        reader = self._session.new_reader()
        # Before the watch starts, so that it gets everything that happens after this call.
        reader.go_to_end(deadline)
        watch = Watch(reader, callback, accepts, self._session.sender.clock.now)
        self._session.watches.add(watch)
        return watch

    def record(
        self,
        path: str | PathLike[str],
        *,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        subscribe: bool = False,
        rotate_bytes: int = DEFAULT_ROTATE_BYTES,
        rotate_seconds: float = DEFAULT_ROTATE_SECONDS,
        timeout: float | None = None,
    ) -> Recorder:
        """Record the log from now on, on a thread of its own, until the recorder is stopped.

        The recording is a folder of Parquet files. pandas, Arrow, DuckDB, Polars and Dask read it as one table at any
        time; at most the last ``rotate_seconds`` are missing. These newest events, and the state tables at the
        beginning and after each loss, are in a second folder (``_run.parquet.mirror``; copy and remove both together).
        :class:`mirror_sdk.recording.Recording` reads both. After a recorder was stopped or killed, the next one with
        the same folder continues in the log, which usually keeps a day. What was lost is a row of the kind ``gap``.

        Args:
            path: The folder, such as ``run.parquet``.
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` selects all, including
                future ones.
            paths: Path patterns (``/3303/*``): only observations of these; ``None`` selects every event. A
                :class:`NotSubscribedWarning` names patterns that, on at least one device, no rule or subscription of
                this key covers: their values do not arrive.
            subscribe: Whether to add rules for these devices and paths while it records, and apply them now; see
                ``client.subscriptions.rules.add()``. Existing rules stay; rules that another recorder
                added end with that recorder. Devices send subscribed values until they register again. If the recorder
                is killed, its rules stay until the next one with the same folder ends.
            rotate_bytes: The size at which a new file is started.
            rotate_seconds: After how many seconds an event is in a file that every program sees.
            timeout: Seconds within which it must start; by default the client's time-out applies to each request.

        Raises:
            ImportError: pandas is not installed.
            NotFound: A device does not exist.
            OSError: The folder cannot be written.
            RecordingDamaged: A file of the recording was changed or damaged; the message names it.
            TypeError: A single string was passed instead of a list.
            InvalidValue: The folder contains something else or another recording, or another recorder is using it. Or
                an argument is not a valid size, time or pattern. Or ``subscribe`` would exceed the limit of rules for a
                key.

        Source: specification 6; wire.md 4.

        >>> with client.record(folder / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
        ...     print(client.subscriptions.rules.list())
        [PresubscriptionRule(endpoint_name=None, endpoint_type=None, resource_path=['/3303/*'])]
        >>> recorder.audit().complete
        True
        >>> client.subscriptions.rules.list()
        []
        """
        import_locked("mirror_sdk.recording.recorder")
        from mirror_sdk.recording.recorder import start_recording
        from mirror_sdk.recording.rules import RecordingRules
        from mirror_sdk.recording.writer import RecordingWriter

        deadline = self._session.sender.total_deadline(timeout)
        chosen = None if devices is None else self._session.ids_of(devices, timeout=deadline)
        make_writer = partial(
            RecordingWriter,
            path,
            server=self._session.base_url,
            key=self._session.key_mark,
            devices=chosen,
            paths=paths,
            rotate_bytes=rotate_bytes,
            rotate_seconds=rotate_seconds,
            # Found here: no line of the program calls the task or thread that warns later.
            called_from=calling_line(),
        )
        recorder = start_recording(
            make_writer,
            self._session.new_log_reader,
            lambda within: self._tables.state_to_record(chosen, paths, within),
            self._session.run,
            RecordingRules(chosen, paths, adds_rules=subscribe),
            deadline,
        )
        self._session.watches.add(recorder)
        return recorder
