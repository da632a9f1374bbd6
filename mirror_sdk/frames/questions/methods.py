"""What can be asked about time of a history or events table, as methods of ``frame.mirror``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from mirror_sdk._arguments import InstantLike
from mirror_sdk.frames.axes import device_names
from mirror_sdk.frames.questions.beside import COMPARED_COLUMNS, align, compare
from mirror_sdk.frames.questions.held import UNCHANGED_COLUMNS, durations, unchanged
from mirror_sdk.frames.questions.late_arrivals import LATE_ARRIVALS_COLUMNS, late_arrivals
from mirror_sdk.frames.questions.plots import draw_availability, draw_gaps, draw_late_arrivals, draw_unchanged
from mirror_sdk.frames.questions.presence import GAPS_COLUMNS, availability, gaps
from mirror_sdk.frames.questions.rates import rates
from mirror_sdk.frames.questions.resample import Statistic, resample
from mirror_sdk.frames.questions.steps import instant_in, span_of, told_by
from mirror_sdk.tables.columns import documented

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Questions:
    """The questions about time; what is known when says :class:`~mirror_sdk.frames.MirrorAccessor`."""

    _frame: pd.DataFrame

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
        """Statistics of each resource by bins of time, for a history or events table.

        v(t) is the value of the resource at t, held until the next row, and known on the set K of instants: never
        across a gap or a silence, see :class:`~mirror_sdk.frames.MirrorAccessor`. For a bin B, which has its begin and
        not its end, with ``|X|`` for how long a set of instants is:

        - ``time_weighted_mean`` = the integral of v(t) over K and B, by ``|K and B|``; of booleans the
          share that is true.
        - ``min``, ``max`` = the least and the greatest of v(t) over K and B, and of the values told in B; of booleans
          0 and 1.
        - ``last`` = the last value that was known in B for some time, at its end or before.
        - ``count`` = how many values were told with a time (``changed_at``) in B, also those that changed nothing, and
          those of one time.
        - ``duration`` = for each value w that was known: ``|{t in K and B: v(t) = w}|``.
        - ``covered`` = ``|K and B| / |B|``, beside any of them.

        Where a device changed the unit of a resource (column ``unit``) there is a :class:`~mirror_sdk.UnitWarning`, and
        ``time_weighted_mean``, ``min`` and ``max`` are NA in a bin with numbers of several units. Numbers whose unit is
        NA are taken for numbers of another unit: it may be any. If you know it, set the column ``unit`` first.

        Args:
            bin: How long a bin is, ``"15min"``, ``"1h"``, ``"1D"``. One begins when the clock of the zone first shows
                a multiple of that: counted from midnight, and where whole bins are no day, from Monday, 5 January 1970.
                A day in which the clock is put forward or back has 23 or 25 hours, an hour that comes twice is two.
            how: Which statistics; ``duration`` by itself.
            silence_limit: How long a value holds behind the last sign of life of its device; for ever by default.
            paths: Only these resources; a ``*`` at the end of one stands for anything.
            begin: From when on; that of the history, else the first row, by default. Rows before it tell what holds
                then.
            end: Up to when; that of the history, else the last row, by default.
            state: A state table, as ``client.as_of(begin)`` gives it: what held before the first row.
            tz: The time zone of the bins and their column, ``"Europe/Berlin"``; that of ``changed_at`` by default.

        Returns:
            One row for each resource and bin, the unknown ones too, in order of device, path and bin:

            ==================  ===================  =======================================================
            column              dtype                meaning
            ==================  ===================  =======================================================
            bin                 datetime64[ms, UTC]  when it begins
            device_id           category             the device
            endpoint_name       category             its endpoint name; NA where that is not known
            path                category             the resource
            time_weighted_mean  Float64              NA where nothing is known
            last                Float64              or boolean, or string: as the values are
            min                 Float64              NA where nothing is known
            max                 Float64              NA where nothing is known
            count               Int64                0 where nothing was told
            covered             Float64              the share of the bin that is known, 0 to 1
            ==================  ===================  =======================================================

            Those columns that were asked for, in that order. ``duration`` has instead a row for each bin and value that
            was held in it, with the columns ``value`` (as ``last``) and ``duration`` (timedelta64[ms]).

        Raises:
            InvalidValue: The table lacks a column; texts are asked for a mean or an order, or stand beside other values
                where one column would have both; an argument is nothing that can be done; there would be more than
                50 million rows.

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
        told = told_by(self._frame, paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return resample(told, span_of("bin", bin), how)

    def durations(
        self,
        path: str,
        *,
        above: float | None = None,
        below: float | None = None,
        equals: float | bool | str | None = None,
        each: bool = False,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """How long a resource was open, on, above a threshold, for a history or events table.

        Let R be the time from ``begin`` up to ``end``, K the instants at which v(t) is known (see
        :class:`~mirror_sdk.frames.MirrorAccessor`), and c the condition:

        - ``duration`` = ``|{t in K and R: c(v(t))}|``, ``known`` = ``|K and R|``, ``share`` = duration / known;
        - an interval is a part of that set without a break, ``intervals`` how many there are, ``longest`` how long the
          longest one is.

        Args:
            path: The resource; a ``*`` at the end stands for anything.
            above: Numbers greater than this; with ``below`` those between.
            below: Numbers less than this.
            equals: This number, boolean or text. Without any condition it is how long a boolean was true.
            each: Whether each interval is a row, with its begin and end.
            silence_limit: How long a value holds behind the last sign of life of its device; for ever by default.
            begin: From when on; that of the history, else the first row, by default.
            end: Up to when; that of the history, else the last row, by default.
            state: A state table, as ``client.as_of(begin)`` gives it: what held before the first row.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each device and path that was told, in order of device and path:

            =============  ===============  ================================================================
            column         dtype            meaning
            =============  ===============  ================================================================
            device_id      category         the device
            endpoint_name  category         its endpoint name; NA where that is not known
            path           category         the resource
            duration       timedelta64[ms]  how long it was so
            intervals      Int64            in how many intervals
            longest        timedelta64[ms]  how long the longest of them was
            known          timedelta64[ms]  how long anything is known
            share          Float64          ``duration`` by ``known``; NA where nothing is known
            =============  ===============  ================================================================

            With ``each`` one row for each interval: ``device_id``, ``endpoint_name``, ``path``, ``begin``, ``end``,
            ``duration``, and whether it was seen to begin and to end (``begin_seen``, ``end_seen``), or was so when it
            was first known, or until nothing more is known.

        Raises:
            InvalidValue: The condition is none or not of the values there are, the table lacks a column, or another
                argument is nothing that can be done.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> _ = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> end = simulator.advance(1200)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> warm = history.mirror.durations("/3303/0/5700", above=24, end=end)
        >>> str(warm["duration"][0]), warm["share"].round(2).tolist()
        ('0 days 00:20:00', [0.67])
        >>> history.mirror.durations("/3303/0/5700", above=24, end=end, each=True)["end_seen"].tolist()
        [False]
        """
        told = told_by(self._frame, paths=[path], silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return durations(told, above=above, below=below, equals=equals, each=each)

    def availability(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        each: bool = False,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """How long each device was there, registered and heard from, for a history or events table.

        Of the time R from ``begin`` up to ``end`` each instant is one of three, the first that is true:

        - *unknown*: before the first row of the device, in a ``gap`` of it or of the service, or behind all that the
          table tells;
        - *absent*: behind a ``deregistration`` or ``expired`` row and before the next ``registration`` or
          ``reg_update``; with ``silence_limit`` also where nothing came of the device for longer than that, from the
          end of the limit on: a value is a sign of life at its own time and, in a history, at that of its receipt;
        - *available*.

        ``availability`` = ``|available| / (|available| + |absent|)``.

        A device that was silent throughout has no row in a history that begins later: ``state`` names it, and who was
        silent yesterday is ``history.mirror.availability(state=client.as_of(begin), silence_limit="1h")``. The values
        of the state are rows and signs of life at their ``reported_at``. It tells nothing of registrations: who had
        left before is available to it, unless ``silence_limit`` makes it absent.

        Args:
            silence_limit: For how long nothing may come of a device that is there; for ever by default.
            each: Whether each interval is a row, with its begin and end.
            begin: From when on; that of the history, else the first row, by default.
            end: Up to when; that of the history, else the last row, by default.
            state: A state table, as ``client.as_of(begin)`` gives it: which devices there were, and when they had told
                their values.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each device that the table or ``state`` names, in their order:

            ===============  ===================  ==========================================================
            column           dtype                meaning
            ===============  ===================  ==========================================================
            device_id        category             the device
            endpoint_name    category             its endpoint name; NA where that is not known
            available        timedelta64[ms]      how long it was there
            absent           timedelta64[ms]      how long it was not
            unknown          timedelta64[ms]      how long nobody knows
            availability     Float64              0 to 1; NA where all is unknown
            absences         Int64                how many intervals it was absent
            longest_absence  timedelta64[ms]      how long the longest of them was
            last_heard_at    datetime64[ms, UTC]  its last sign of life: a value, a registration or update; NA for none
            ===============  ===================  ==========================================================

            With ``each`` one row for each interval: ``device_id``, ``endpoint_name``, ``presence`` (available, absent
            or unknown), ``begin``, ``end`` and ``duration``.

        Raises:
            InvalidValue: The table lacks a column, or an argument is nothing that can be done.

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
        told = told_by(self._frame, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return availability(told, state, each=each)

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
        """How fast a counter counts, also where it begins anew, for a history or events table.

        Of two values v at s and w at t that follow each other with nothing unknown between:

        - ``increase`` = w - v; where w < v the counter began anew, at 0: then w, and ``reset`` is true;
        - ``rate`` = increase / ((t - s) / per).

        In a bin B a counter is taken to rise evenly from s to t, so with K the instants between two such values:
        ``increase`` = the sum of ``increase * |B and [s, t)| / (t - s)``, ``rate`` = increase / (``|K and B|`` / per),
        ``resets`` = how many t in B are of a reset, ``covered`` = ``|K and B| / |B|``.

        Args:
            path: The counter; a ``*`` at the end stands for anything.
            bin: How long a bin is, as in :meth:`resample`; without it each two values are a row.
            per: What time a rate is for: ``"1h"`` gives the increase an hour.
            silence_limit: How long a value holds behind the last sign of life of its device; for ever by default.
            begin: From when on; that of the history, else the first row, by default.
            end: Up to when; that of the history, else the last row, by default.
            tz: The time zone of bins and times; that of ``changed_at`` by default.

        Returns:
            One row for each two values that are neither wholly before ``begin`` nor behind ``end``:

            =============  ===================  ============================================================
            column         dtype                meaning
            =============  ===================  ============================================================
            device_id      category             the device
            endpoint_name  category             its endpoint name; NA where that is not known
            path           category             the counter
            begin          datetime64[ms, UTC]  when the first value was
            end            datetime64[ms, UTC]  when the second was
            duration       timedelta64[ms]      from one to the other
            increase       Float64              by how much it rose
            rate           Float64              by how much it rose ``per`` time
            reset          boolean              whether it began anew
            =============  ===================  ============================================================

            With ``bin`` one row for each resource and bin: ``bin``, ``device_id``, ``endpoint_name``, ``path``,
            ``increase``, ``rate``, ``resets`` (Int64) and ``covered``.

        Raises:
            InvalidValue: Some values are no numbers, the table lacks a column, or an argument is nothing that can be
                done.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> _ = simulator.advance(1800)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> events = client.notifications.events_frame(after=0, timeout=0)
        >>> events.mirror.rates("/3303/0/5700", per="1h")["rate"].tolist()
        [6.0]
        """
        told = told_by(self._frame, paths=[path], silence_limit=silence_limit, begin=begin, end=end, tz=tz)
        return rates(told, per=span_of("per", per), span=None if bin is None else span_of("bin", bin))

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
        """Resources beside each other: a column for each path, for a history or events table.

        The cell of device d, bin B and path p is the statistic ``how`` of p in B, as :meth:`resample` defines it; NA
        where nothing is known, or the device has no such resource.

        Args:
            paths: Which resources, in the order of the columns; a ``*`` at the end of one stands for anything.
            on: How long a bin is, as in :meth:`resample`.
            how: Which statistic: ``last`` is the value at the end of the bin, ``time_weighted_mean`` its mean.
            silence_limit: How long a value holds behind the last sign of life of its device; for ever by default.
            begin: From when on; that of the history, else the first row, by default.
            end: Up to when; that of the history, else the last row, by default.
            state: A state table, as ``client.as_of(begin)`` gives it: what held before the first row.
            tz: The time zone of the bins; that of ``changed_at`` by default.

        Returns:
            A frame with the index ``device_id`` and ``bin`` (when it begins), and a column for each path that was
            told: ``Float64``, ``boolean`` or ``string``, as its values are.

        Raises:
            InvalidValue: The table lacks a column, the statistic is not of the values there are, or an argument is
                nothing that can be done.

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
        told = told_by(self._frame, paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return align(told, span_of("on", on), how)

    @documented(COMPARED_COLUMNS)
    def compare(
        self,
        begin_a: InstantLike,
        begin_b: InstantLike,
        length: str | pd.Timedelta,
        *,
        bin: str | pd.Timedelta | None = None,  # noqa: A002 - as in the other questions
        how: Statistic = "time_weighted_mean",
        paths: Sequence[str] | None = None,
        silence_limit: str | pd.Timedelta | None = None,
        state: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Two times beside each other, such as yesterday and today, for a history or events table.

        With s(B) for the statistic ``how`` in B, as :meth:`resample` defines it, a row is of the offset x:
        ``a`` = s([begin_a + x, begin_a + x + bin)), ``b`` = s([begin_b + x, begin_b + x + bin)), ``difference`` =
        b - a. The last bin ends with the length. Bins are counted from each begin, and have the same length in every
        zone.

        Args:
            begin_a: When the first time begins.
            begin_b: When the second one begins.
            length: How long both are.
            bin: How long a bin is; all of the length by default.
            how: Which statistic of numbers and booleans; ``last`` and ``count`` too.
            paths: Only these resources; a ``*`` at the end of one stands for anything.
            silence_limit: How long a value holds behind the last sign of life of its device; for ever by default.
            state: A state table of the earlier begin: what held before the first row.

        Returns:
            One row for each resource and offset, the unknown ones too:

            {columns}

        Raises:
            InvalidValue: An instant is naive, the values are texts, the table lacks a column, or another argument is
                nothing that can be done.

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
        told = told_by(self._frame, paths=paths, silence_limit=silence_limit, state=state)
        begins = [instant_in(self._frame, name, one) for name, one in (("begin_a", begin_a), ("begin_b", begin_b))]
        return compare(told, begins, span, None if bin is None else span_of("bin", bin), how)

    @documented(GAPS_COLUMNS)
    def gaps(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """The intervals in which something is not known, for a history or events table.

        They are those across which no value is held, see :class:`~mirror_sdk.frames.MirrorAccessor`; one that ends when
        it begins is none:

        - ``gap`` = [``changed_at``, ``until``) of the row; of a loss of events from the newest row before it to the
          first later one behind it;
        - ``deregistration``, ``expired`` = [``changed_at`` of the row, that of the next registration or update of the
          device);
        - ``silent`` = [a sign of life + ``silence_limit``, the next sign of life), where that is later.

        Args:
            silence_limit: How long a device may be silent; without it silences are no gaps.
            begin: Only those that end behind this instant; that of the history, else the first row, by default.
            end: Only those that begin before this instant; that of the history, else the last row, by default.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each interval, in order of device and begin, those of all devices first:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument is nothing that can be done.

        >>> _ = simulator.advance(600)
        >>> simulator.deregister(station)
        >>> _ = simulator.advance(300)
        >>> simulator.register(station)
        >>> silent = client.notifications.events_frame(after=0, timeout=0).mirror.gaps()
        >>> silent["reason"].tolist(), str(silent["duration"][0])
        (['deregistration'], '0 days 00:05:00')
        """
        return gaps(told_by(self._frame, silence_limit=silence_limit, begin=begin, end=end, tz=tz))

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
        """The values that came late, for a history or events table.

        - ``behind`` = the newest ``changed_at`` of the resource among the rows that came before it, less its own, at
          least 0: it was overtaken by so much. A table knows the order of arrival by its ``revision`` or ``seq``, else
          by ``received_at``.
        - ``delay`` = ``received_at`` less ``changed_at``: in a history the time of the service less that of the device,
          in an events table the time here, so that clocks that differ are in it.

        A value is late if ``behind`` > 0, or ``delay`` > ``longer_than`` where that is given.

        Args:
            longer_than: Which delay is late too.
            paths: Only these resources; a ``*`` at the end of one stands for anything.
            begin: Only what changed at this instant or behind it; that of the history, else all, by default.
            end: Only what changed before this instant; that of the history, else all, by default.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each late value, by device and path, as they came:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument is nothing that can be done.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> len(client.notifications.events_frame(after=0, timeout=0).mirror.late_arrivals())
        0
        """
        limit = None if longer_than is None else span_of("longer_than", longer_than)
        return late_arrivals(told_by(self._frame, paths=paths, begin=begin, end=end, tz=tz), limit)

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
        """What stayed the same for longer than a span, for a history or events table: stuck sensors, forgotten lights.

        Of the instants from ``begin`` up to ``end`` at which v(t) is known (see
        :class:`~mirror_sdk.frames.MirrorAccessor`), the longest intervals without a break in which v(t) has one value;
        a row is one whose ``end`` less its ``begin`` is more than ``longer_than``. As no interval goes across a gap or
        a silence, a device that is merely silent has none; ``silence_limit`` tells them apart. ``told`` is the
        ``count`` of :meth:`resample` in [begin, end).

        Args:
            longer_than: How long it stayed the same.
            paths: Only these resources; a ``*`` at the end of one stands for anything.
            silence_limit: How long a value holds behind the last sign of life of its device; for ever by default.
            begin: From when on; that of the history, else the first row, by default.
            end: Up to when; that of the history, else the last row, by default.
            state: A state table, as ``client.as_of(begin)`` gives it: what held before the first row.
            tz: The time zone of the times of the result; that of ``changed_at`` by default.

        Returns:
            One row for each such interval, in order of device, path and begin:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument is nothing that can be done.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> end = simulator.advance(7200)
        >>> stuck = client.notifications.events_frame(after=0, timeout=0).mirror.unchanged("1h", end=end)
        >>> stuck["value_num"].tolist(), stuck["lasting"].tolist()
        ([21.5], [True])
        """
        told = told_by(self._frame, paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return unchanged(told, span_of("longer_than", longer_than))

    def plot_gaps(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw :meth:`gaps`: a row for each device with gaps, the 30 with the longest ones; gaps of all at the top.

        Args:
            silence_limit: How long a device may be silent; without it silences are no gaps.
            begin: From when on; that of the history, else the first row, by default.
            end: Up to when; that of the history, else the last row, by default.
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
        told = told_by(self._frame, silence_limit=silence_limit, begin=begin, end=end, tz=tz)
        return draw_gaps(told, gaps(told), device_names(self._frame), ax)

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
            silence_limit: For how long nothing may come of a device that is there; for ever by default.
            begin: From when on; that of the history, else the first row, by default.
            end: Up to when; that of the history, else the last row, by default.
            state: A state table, as ``client.as_of(begin)`` gives it: devices that the table may have no row of.
            tz: The time zone of the axis; that of ``changed_at`` by default.
            ax: Where to draw; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: As for :meth:`availability`.

        >>> end = simulator.advance(300)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> history.mirror.plot_availability(end=end).get_title(loc="left")
        'when devices were there'
        """
        told = told_by(self._frame, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        names = device_names(self._frame, *([] if state is None else [state]))
        return draw_availability(told, availability(told, state, each=True), names, ax)

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
        """Draw :meth:`late_arrivals`: when late values changed, and how much later they came.

        Args:
            longer_than: Which delay is late too.
            paths: Only these resources; a ``*`` at the end of one stands for anything.
            begin: Only what changed at this instant or behind it; that of the history, else all, by default.
            end: Only what changed before this instant; that of the history, else all, by default.
            tz: The time zone of the axis; that of ``changed_at`` by default.
            ax: Where to draw; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: As for :meth:`late_arrivals`.

        >>> client.notifications.events_frame(after=0, timeout=0).mirror.plot_late_arrivals().get_ylabel()
        'came later by (s)'
        """
        limit = None if longer_than is None else span_of("longer_than", longer_than)
        told = told_by(self._frame, paths=paths, begin=begin, end=end, tz=tz)
        return draw_late_arrivals(told, late_arrivals(told, limit), ax)

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
        """Draw :meth:`unchanged`: a row for each resource with its values, the 30 that stayed the same for longest.

        Args:
            longer_than: How long it stayed the same.
            paths: Only these resources; a ``*`` at the end of one stands for anything.
            silence_limit: How long a value holds behind the last sign of life of its device; for ever by default.
            begin: From when on; that of the history, else the first row, by default.
            end: Up to when; that of the history, else the last row, by default.
            state: A state table, as ``client.as_of(begin)`` gives it: what held before the first row.
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
        told = told_by(self._frame, paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return draw_unchanged(told, unchanged(told, span_of("longer_than", longer_than)), device_names(self._frame), ax)
