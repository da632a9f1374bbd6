"""Methods of ``frame.mirror`` that analyze a history or events table over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from mirror_sdk._arguments import InstantLike
from mirror_sdk.frames.analysis.alignment import COMPARED_COLUMNS, align, compare
from mirror_sdk.frames.analysis.availability import AVAILABILITY_COLUMNS, GAPS_COLUMNS, availability, gaps
from mirror_sdk.frames.analysis.durations import DURATIONS_COLUMNS, UNCHANGED_COLUMNS, durations, unchanged
from mirror_sdk.frames.analysis.late_arrivals import LATE_ARRIVALS_COLUMNS, late_arrivals
from mirror_sdk.frames.analysis.plots import draw_availability, draw_gaps, draw_late_arrivals, draw_unchanged
from mirror_sdk.frames.analysis.rates import RATES_COLUMNS, rates
from mirror_sdk.frames.analysis.resample import RESAMPLED_COLUMNS, Statistic, resample
from mirror_sdk.frames.analysis.timeline import Timeline, instant_in, span_of, timeline_of
from mirror_sdk.frames.axes import device_names
from mirror_sdk.tables.columns import documented

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class HistoryMethods:
    """Analysis over time. :class:`~mirror_sdk.frames.MirrorAccessor` defines when a value is known."""

    _frame: pd.DataFrame

    def _timeline(self, **options: Any) -> Timeline:
        return timeline_of(self._frame, **options)

    @documented(RESAMPLED_COLUMNS)
    def resample(
        self,
        bin: str | pd.Timedelta,  # noqa: A002 - as the column of the result
        how: Statistic | Sequence[Statistic] = "time_weighted_mean",
        *,
        silence_limit: str | pd.Timedelta | None = None,
        paths: Sequence[str] | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Compute statistics of each resource in bins of time, for a history or events table.

        Each value holds until the next one, but not across a gap or a silence, where it is unknown; see
        :class:`~mirror_sdk.frames.MirrorAccessor`. A bin contains its start and not its end:

        - ``time_weighted_mean`` is the mean of the known values of the bin, each weighted by how long it held. For
          booleans it is the share of the known time in which the value was true.
        - ``min`` and ``max`` are the least and the greatest of the values that were known in the bin or have a time in
          it. For booleans they are 0 or 1.
        - ``last`` is the last value that was known in the bin for some time, at its end or before.
        - ``count`` is the number of values whose time (``changed_at``) is in the bin. Values that changed nothing
          count, and so do several values with the same time.
        - ``duration`` is how long each value held in the bin, for each known value.
        - ``covered``, in every table, is the part of the bin in which a value was known, from 0 to 1.

        If a device changed the unit of a resource (column ``unit``), a :class:`~mirror_sdk.UnitWarning` says so, and
        ``time_weighted_mean``, ``min`` and ``max`` are NA in a bin with several units. An unknown unit (NA) counts as
        another unit, since it may be any. If you know it, set the column ``unit`` first.

        Args:
            bin: Length of a bin, such as ``"15min"``, ``"1h"`` or ``"1D"``. A bin starts when the clock of the zone
                first shows a multiple of the length. Multiples are counted from midnight if a day is a whole number of
                bins, else from Monday, 5 January 1970. A day in which the clock is put forward or back has 23 or 25
                hours, and an hour that occurs twice counts twice.
            how: The statistics; ``duration`` only by itself.
            silence_limit: How long a value holds after the last contact of its device; for ever by default.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            begin: Start of the period; by default the start of the history, else the first row. Rows before it give the
                values that hold then.
            end: End of the period; by default the end of the history, else the last row.
            state: A state table, as ``client.as_of(begin)`` returns it: the values before the first row.
            tz: Time zone of the bins and their column, such as ``"Europe/Berlin"``; that of ``changed_at`` by default.

        Returns:
            One row for each resource and bin, including unknown ones, in order of device, path and bin:

            {columns}

            The statistics are the requested ones, in that order. ``duration`` has instead a row for each bin and value
            that holds in it, with the columns ``value`` (as ``last``) and ``duration`` (timedelta64[ms]).

        Raises:
            InvalidValue: The table lacks a column, or an argument cannot be used. The statistic is not defined for
                texts, or one column would have texts and other values. There would be more than 50 million rows.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> begin = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> end = simulator.advance(1200)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> warm = history.mirror.resample("1D", ["time_weighted_mean", "max"], end=end)
        >>> warm["time_weighted_mean"].tolist(), warm["max"].tolist()
        ([23.5], [24.5])
        """
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return resample(timeline, span_of("bin", bin), how)

    @documented(DURATIONS_COLUMNS)
    def durations(
        self,
        path: str,
        *,
        above: float | None = None,
        below: float | None = None,
        equals: float | bool | str | None = None,
        per_interval: bool = False,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Measure how long each resource met a condition, for example was on or above a threshold.

        Each value holds until the next one, but not across a gap or a silence; see
        :class:`~mirror_sdk.frames.MirrorAccessor`. In the period from ``begin`` to ``end``:

        - ``known`` is how long any value is known, and ``duration`` how long the value meets the condition. ``share``
          is ``duration`` divided by ``known``.
        - ``intervals`` is the number of intervals without a break in which the value meets the condition, and
          ``longest`` is the length of the longest one.

        Args:
            path: The resource; ``*`` at the end matches anything.
            above: Numbers greater than this; with ``below`` the numbers between.
            below: Numbers less than this.
            equals: This number, boolean or text. Without any condition, how long a boolean was true.
            per_interval: Whether each interval is a row, with its start and end.
            silence_limit: How long a value holds after the last contact of its device; for ever by default.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: A state table, as ``client.as_of(begin)`` returns it: the values before the first row.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each device and path that has a value, in order of device and path:

            {columns}

            With ``per_interval`` one row for each interval: ``device_id``, ``endpoint_name``, ``path``, ``begin``,
            ``end``, ``duration``, and whether another known value precedes and follows it (``begin_seen``,
            ``end_seen``).

        Raises:
            InvalidValue: The condition is invalid or not defined for the values, the table lacks a column, or another
                argument cannot be used.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> _ = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> end = simulator.advance(1200)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> warm = history.mirror.durations("/3303/0/5700", above=24, end=end)
        >>> str(warm["duration"][0]), warm["share"].round(2).tolist()
        ('0 days 00:20:00', [0.67])
        >>> history.mirror.durations("/3303/0/5700", above=24, end=end, per_interval=True)["end_seen"].tolist()
        [False]
        """
        timeline = self._timeline(paths=[path], silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return durations(timeline, above=above, below=below, equals=equals, per_interval=per_interval)

    @documented(AVAILABILITY_COLUMNS)
    def availability(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        per_interval: bool = False,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Measure how long each device was registered and in contact, for a history or events table.

        Each instant of the period from ``begin`` to ``end`` is one of three, the first that is true:

        - *unknown*: before the first row of the device, in a ``gap`` of it or of the service, or after the end of the
          table;
        - *absent*: after a ``deregistration`` or ``expired`` row and before the next ``registration`` or
          ``reg_update``; with ``silence_limit`` also after that time without contact. A value is a contact at its own
          time and, in a history, at its receipt;
        - *available*.

        ``availability`` = ``|available| / (|available| + |absent|)``.

        A device that was silent throughout has no row in the history. ``state`` adds such devices: to find those that
        were silent yesterday use ``history.mirror.availability(state=client.as_of(begin), silence_limit="1h")``. The
        values of the state count as rows and contacts at their ``reported_at``. A state contains no registrations, so
        a device that had left before counts as available, unless ``silence_limit`` makes it absent.

        Args:
            silence_limit: After how long without contact a registered device is absent; never by default.
            per_interval: Whether each interval is a row, with its start and end.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: A state table, as ``client.as_of(begin)`` returns it: the devices, and when they had reported
                their values.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each device in the table or ``state``, in order of their ids:

            {columns}

            With ``per_interval`` one row for each interval: ``device_id``, ``endpoint_name``, ``presence`` (available,
            absent or unknown), ``begin``, ``end`` and ``duration``.

        Raises:
            InvalidValue: The table lacks a column, or an argument cannot be used.

        >>> begin = simulator.advance(600)
        >>> simulator.deregister(station)
        >>> _ = simulator.advance(300)
        >>> simulator.register(station)
        >>> end = simulator.advance(300)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> there = history[history["device_id"] == station].mirror.availability(begin=begin, end=end)
        >>> there["availability"].tolist(), there["absences"].tolist()
        ([0.5], [1])
        """
        timeline = self._timeline(silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return availability(timeline, state, per_interval=per_interval)

    @documented(RATES_COLUMNS)
    def rates(
        self,
        path: str,
        *,
        bin: str | pd.Timedelta | None = None,  # noqa: A002 - as the column of the result
        per: str | pd.Timedelta = "1s",
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Compute the rate of a counter, which may have resets, for a history or events table.

        For consecutive values v at s and w at t with nothing unknown between:

        - ``increase`` = w - v; if w < v the counter was reset to 0: then w, and ``reset`` is true;
        - ``rate`` = increase / ((t - s) / per).

        In a bin B a counter is assumed to rise evenly from s to t. With K the instants between two such values:
        ``increase`` = the sum of ``increase * |B and [s, t)| / (t - s)``, ``rate`` = increase / (``|K and B|`` / per),
        ``resets`` = the number of resets whose t is in B, ``covered`` = ``|K and B| / |B|``.

        Args:
            path: The counter; ``*`` at the end matches anything.
            bin: Length of a bin, as in :meth:`resample`; without it there is a row per pair of values.
            per: The unit of time of a rate: ``"1h"`` means the increase per hour.
            silence_limit: How long a value holds after the last contact of its device; for ever by default.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            tz: The time zone of bins and times; that of ``changed_at`` by default.

        Returns:
            One row for each pair of values that is neither entirely before ``begin`` nor after ``end``:

            {columns}

            With ``bin`` one row for each resource and bin: ``bin``, ``device_id``, ``endpoint_name``, ``path``,
            ``increase``, ``rate``, ``resets`` (Int64) and ``covered``.

        Raises:
            InvalidValue: Some values are not numbers, the table lacks a column, or an argument cannot be used.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> _ = simulator.advance(1800)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> events = client.notifications.events_frame(after=0, timeout=0)
        >>> events.mirror.rates("/3303/0/5700", per="1h")["rate"].tolist()
        [6.0]
        """
        timeline = self._timeline(paths=[path], silence_limit=silence_limit, begin=begin, end=end, tz=tz)
        return rates(timeline, per=span_of("per", per), span=None if bin is None else span_of("bin", bin))

    def align(
        self,
        paths: Sequence[str] | None = None,
        on: str | pd.Timedelta = "1min",
        *,
        how: Statistic = "last",
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Return one column for each resource path, for a history or events table.

        The cell of device d, bin B and path p is the statistic ``how`` of p in B, as :meth:`resample` defines it. The
        cell is NA if no value is known, or if the device does not have the resource.

        Args:
            paths: The resources, in the order of the columns; ``*`` at the end of a path matches anything.
            on: Length of a bin, as in :meth:`resample`.
            how: The statistic: ``last`` is the value at the end of the bin, ``time_weighted_mean`` its mean.
            silence_limit: How long a value holds after the last contact of its device; for ever by default.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: A state table, as ``client.as_of(begin)`` returns it: the values before the first row.
            tz: The time zone of the bins; that of ``changed_at`` by default.

        Returns:
            A frame with the index ``device_id`` and ``bin`` (its start), and a column for each path that has values:
            ``Float64``, ``boolean`` or ``string``, like its values.

        Raises:
            InvalidValue: The table lacks a column, the statistic is not defined for the values, or an argument cannot
                be used.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3311/*"]}])
        >>> simulator.register(light)
        >>> begin = simulator.advance(60)
        >>> simulator.set_value(light, "/3311/0/5850", True)
        >>> end = simulator.advance(60)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> side = history.mirror.align(["/3311/0/5851", "/3311/0/5850"], on="1min", begin=begin, end=end)
        >>> side["/3311/0/5851"].tolist(), side["/3311/0/5850"].tolist()
        ([10.0], [True])
        """
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return align(timeline, span_of("on", on), how)

    @documented(COMPARED_COLUMNS)
    def compare(
        self,
        begin_a: InstantLike,
        begin_b: InstantLike,
        length: str | pd.Timedelta,
        *,
        bin: str | pd.Timedelta | None = None,  # noqa: A002 - as in the other methods
        how: Statistic = "time_weighted_mean",
        paths: Sequence[str] | None = None,
        silence_limit: str | pd.Timedelta | None = None,
        state: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Compare two periods, such as yesterday and today, for a history or events table.

        Let s(B) be the statistic ``how`` in B, as :meth:`resample` defines it. The row for the offset x has:

        - ``a`` = s([begin_a + x, begin_a + x + bin));
        - ``b`` = s([begin_b + x, begin_b + x + bin));
        - ``difference`` = b - a.

        The last bin ends with the period. Bins are counted from the start of each period, and have the same length in
        every zone.

        Args:
            begin_a: Start of the first period.
            begin_b: Start of the second period.
            length: Length of both periods.
            bin: Length of a bin; by default one bin of the whole length.
            how: The statistic, of numbers and booleans; also ``last`` and ``count``.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            silence_limit: How long a value holds after the last contact of its device; for ever by default.
            state: A state table of the start of the earlier period: the values before the first row.

        Returns:
            One row for each resource and offset, including unknown ones:

            {columns}

        Raises:
            InvalidValue: An instant is naive, the values are texts, the table lacks a column, or another argument
                cannot be used.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> before = simulator.get_clock()
        >>> after = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> _ = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 25.0)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> history.mirror.compare(before, after, "10min")["difference"].tolist()
        [3.0]
        """
        span = span_of("length", length)
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, state=state)
        begins = [instant_in(self._frame, name, one) for name, one in (("begin_a", begin_a), ("begin_b", begin_b))]
        return compare(timeline, begins, span, None if bin is None else span_of("bin", bin), how)

    @documented(GAPS_COLUMNS)
    def gaps(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """List the intervals in which values are unknown, for a history or events table.

        No value holds across them, see :class:`~mirror_sdk.frames.MirrorAccessor`. Empty intervals are left out:

        - ``gap``: from ``changed_at`` to ``until`` of its row. A loss of events extends from the newest row before it
          to the first row after it that has a later time;
        - ``deregistration``, ``expired``: from ``changed_at`` of its row to that of the next registration or update of
          the device;
        - ``silent``: from ``silence_limit`` after a contact to the next contact, if that is later.

        Args:
            silence_limit: How long a device may be silent; without it a silence is not a gap.
            begin: Only those that end after this instant; by default that of the history, else the first row.
            end: Only those that begin before this instant; by default that of the history, else the last row.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each interval, in order of device and start, intervals of all devices first:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument cannot be used.

        >>> _ = simulator.advance(600)
        >>> simulator.deregister(station)
        >>> _ = simulator.advance(300)
        >>> simulator.register(station)
        >>> silent = client.notifications.events_frame(after=0, timeout=0).mirror.gaps()
        >>> silent["reason"].tolist(), str(silent["duration"][0])
        (['deregistration'], '0 days 00:05:00')
        """
        return gaps(self._timeline(silence_limit=silence_limit, begin=begin, end=end, tz=tz))

    @documented(LATE_ARRIVALS_COLUMNS)
    def late_arrivals(
        self,
        longer_than: str | pd.Timedelta | None = None,
        *,
        paths: Sequence[str] | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """List values that arrived late, for a history or events table.

        - ``lag`` = the newest ``changed_at`` of the resource among the rows that arrived before it, less its own, at
          least 0: how far a newer value overtook it. The order of arrival is that of ``revision`` or ``seq``, else of
          ``received_at``.
        - ``delay`` = ``received_at`` less ``changed_at``: in a history the time of the service less that of the device,
          in an events table the time of the client. It includes differences of the clocks.

        A value is late if ``lag`` > 0. With ``longer_than`` it is also late if ``delay`` > ``longer_than``.

        Args:
            longer_than: A longer delay is late, too.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            begin: Only changes at this instant or later; by default that of the history, else all.
            end: Only changes before this instant; by default that of the history, else all.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each late value, by device and path, in order of arrival:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument cannot be used.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> len(client.notifications.events_frame(after=0, timeout=0).mirror.late_arrivals())
        0
        """
        limit = None if longer_than is None else span_of("longer_than", longer_than)
        return late_arrivals(self._timeline(paths=paths, begin=begin, end=end, tz=tz), limit)

    @documented(UNCHANGED_COLUMNS)
    def unchanged(
        self,
        longer_than: str | pd.Timedelta,
        *,
        paths: Sequence[str] | None = None,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Find values that did not change, such as of stuck sensors, for a history or events table.

        An interval is the longest time without a break, between ``begin`` and ``end``, in which the value is known and
        does not change (see :class:`~mirror_sdk.frames.MirrorAccessor`). Intervals that are longer than ``longer_than``
        are rows. No interval extends across a gap or a silence: ``silence_limit`` distinguishes a silent device from
        one that reports the same value. ``count`` is that of :meth:`resample` in [begin, end).

        Args:
            longer_than: The length that an interval must exceed.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            silence_limit: How long a value holds after the last contact of its device; for ever by default.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: A state table, as ``client.as_of(begin)`` returns it: the values before the first row.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each such interval, in order of device, path and start:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument cannot be used.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> end = simulator.advance(7200)
        >>> stuck = client.notifications.events_frame(after=0, timeout=0).mirror.unchanged("1h", end=end)
        >>> stuck["value_num"].tolist(), stuck["ongoing"].tolist()
        ([21.5], [True])
        """
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return unchanged(timeline, span_of("longer_than", longer_than))

    def plot_gaps(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw :meth:`gaps`: a row for each device with gaps, at most the 30 with the longest ones.

        Gaps of all devices are at the top.

        Args:
            silence_limit: How long a device may be silent; without it a silence is not a gap.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            tz: The time zone of the axis; that of ``changed_at`` by default.
            ax: Where to draw; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: As for :meth:`gaps`.

        >>> simulator.deregister(station)
        >>> _ = simulator.advance(300)
        >>> simulator.register(station)
        >>> client.notifications.events_frame(after=0, timeout=0).mirror.plot_gaps().get_yticklabels()[0].get_text()
        'station-01'
        """
        timeline = self._timeline(silence_limit=silence_limit, begin=begin, end=end, tz=tz)
        return draw_gaps(timeline, gaps(timeline), device_names(self._frame), ax)

    def plot_availability(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw :meth:`availability`: a row for each device by name, the 30 that were absent for longest.

        Args:
            silence_limit: After how long without contact a registered device is absent; never by default.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: A state table, as ``client.as_of(begin)`` returns it: devices without a row in the table.
            tz: The time zone of the axis; that of ``changed_at`` by default.
            ax: Where to draw; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: As for :meth:`availability`.

        >>> end = simulator.advance(300)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> history.mirror.plot_availability(end=end).get_title(loc="left")
        'availability of devices'
        """
        timeline = self._timeline(silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        names = device_names(self._frame, *([] if state is None else [state]))
        return draw_availability(timeline, availability(timeline, state, per_interval=True), names, ax)

    def plot_late_arrivals(
        self,
        longer_than: str | pd.Timedelta | None = None,
        *,
        paths: Sequence[str] | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw :meth:`late_arrivals`: when late values changed, and how much later they arrived.

        Args:
            longer_than: A longer delay is late, too.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            begin: Only changes at this instant or later; by default that of the history, else all.
            end: Only changes before this instant; by default that of the history, else all.
            tz: The time zone of the axis; that of ``changed_at`` by default.
            ax: Where to draw; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: As for :meth:`late_arrivals`.

        >>> client.notifications.events_frame(after=0, timeout=0).mirror.plot_late_arrivals().get_ylabel()
        'delay (s)'
        """
        limit = None if longer_than is None else span_of("longer_than", longer_than)
        timeline = self._timeline(paths=paths, begin=begin, end=end, tz=tz)
        return draw_late_arrivals(timeline, late_arrivals(timeline, limit), ax)

    def plot_unchanged(
        self,
        longer_than: str | pd.Timedelta,
        *,
        paths: Sequence[str] | None = None,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw :meth:`unchanged`: a row for each resource with its values, the 30 with the longest intervals.

        Args:
            longer_than: The length that an interval must exceed.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            silence_limit: How long a value holds after the last contact of its device; for ever by default.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: A state table, as ``client.as_of(begin)`` returns it: the values before the first row.
            tz: The time zone of the axis; that of ``changed_at`` by default.
            ax: Where to draw; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: As for :meth:`unchanged`.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> end = simulator.advance(7200)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> history.mirror.plot_unchanged("1h", end=end).get_yticklabels()[0].get_text()
        'station-01 Temperature · Sensor Value'
        """
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        intervals = unchanged(timeline, span_of("longer_than", longer_than))
        return draw_unchanged(timeline, intervals, device_names(self._frame), ax)
