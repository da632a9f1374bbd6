"""The class :class:`Condition`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Self

from mirror_sdk.conditions.clause import Clause, clause
from mirror_sdk.conditions.grammar import Combination, Expression, clauses_of, format_expression, parse
from mirror_sdk.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk._arguments import InstantLike
    from mirror_sdk.conditions.spans import Span


class Condition:
    """A condition on the values of resources over time.

    Exactly one of the tests ``above``, ``below``, ``equals``, ``outside``, ``changed``, ``silent_for`` and
    ``differs_from_desired_for`` is required. Two conditions can be combined for each device: ``a & b`` is met while
    both are met, and ``a | b`` while at least one of them is met. In a combination, a path with ``*`` is met if at
    least one of the resources of the device meets it.

    The state of a condition is unknown while the value is unknown: during a gap, while the device is not registered,
    until its first report after that, and if the test does not apply to the type of the value. Unknown time never
    starts or ends a condition, and does not count toward ``for_``. The results report how much of it an interval
    contains. ``mirror help conditions`` describes the rules.

    Args:
        path: The resource path, such as ``/3303/0/5700``. ``*`` stands for any number, or for the rest of the path at
            its end, as in ``/3303/*/5700`` and ``/3303/*``. Each resource of each device is evaluated separately.
        above: The number that the value must exceed.
        below: The number that the value must be less than.
        equals: The number, boolean or string that the value must be.
        outside: Two numbers. The value must be less than the first one, or more than the second one.
        changed: ``True`` for each change of the value. Such an interval has no duration.
        silent_for: How long the device must not have reported the resource, such as ``1h``. It must have reported it
            before.
        differs_from_desired_for: How long the reported value must differ from the desired value, such as ``5min``.
        for_: How long the test must be met, such as ``10min``. The units are ``ms``, ``s``, ``min`` or ``m``, ``h``,
            ``d`` and ``w``, or words such as ``10 minutes``. A timedelta is also accepted.
        until_below: For ``above``, the limit at which a condition that is met ends. By default, it is ``above``.
        until_above: For ``below``, the limit at which a condition that is met ends. By default, it is ``below``.

    Raises:
        InvalidValue: An argument is not valid, or arguments cannot be combined.

    >>> from mirror_sdk import Condition
    >>> hot = Condition("/3303/0/5700", above=25, for_="10min", until_below=24)
    >>> str(hot)
    '/3303/0/5700 > 25 for 10min until below 24'
    >>> Condition.parse("/3303/0/5700 > 25 for 10min until below 24") == hot
    True
    """

    __slots__ = ("_expression",)

    def __init__(
        self,
        path: str,
        *,
        above: float | None = None,
        below: float | None = None,
        equals: float | bool | str | None = None,
        outside: tuple[float, float] | None = None,
        changed: bool = False,
        silent_for: str | timedelta | None = None,
        differs_from_desired_for: str | timedelta | None = None,
        for_: str | timedelta | None = None,
        until_below: float | None = None,
        until_above: float | None = None,
    ) -> None:
        self._expression: Expression = clause(
            path,
            above=above,
            below=below,
            equals=equals,
            outside=outside,
            changed=changed,
            silent_for=silent_for,
            differs_from_desired_for=differs_from_desired_for,
            for_=for_,
            until_below=until_below,
            until_above=until_above,
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a condition from text, such as ``/3303/0/5700 > 25 for 10min``. ``str(condition)`` returns this text.

        The tests are ``> 25``, ``< 5``, ``= on`` (a number, ``true``, ``false`` or a string, in quotation marks if it
        contains spaces), ``outside 10..20``, ``changed``, ``silent for 1h`` and ``differs from desired for 5min``. The
        first four accept ``for 10min``. ``> 25`` also accepts ``until below 24``, and ``< 5`` accepts ``until above
        6``. ``&`` binds more tightly than ``|``, and parentheses group.

        Raises:
            TypeError: The argument is not a string.
            InvalidValue: The text is not a condition.

        >>> from mirror_sdk import Condition
        >>> Condition.parse("/3303/0/5700 > 25 & /3304/0/5700 outside 30..60 for 1h")
        Condition.parse('/3303/0/5700 > 25 & /3304/0/5700 outside 30..60 for 1h')
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, not {type(text).__name__}")
        return cls._of(parse(text))

    @classmethod
    def _of(cls, expression: Expression) -> Self:
        self = cls.__new__(cls)
        self._expression = expression
        return self

    def __and__(self, other: object) -> Condition:
        return self._combined("&", other)

    def __or__(self, other: object) -> Condition:
        return self._combined("|", other)

    def _combined(self, operator: str, other: object) -> Condition:
        if not isinstance(other, Condition):
            raise InvalidValue(f"{other!r} is not a Condition; combine two conditions, such as a {operator} b")
        parts: list[Expression] = []
        for one in (self._expression, other._expression):
            # Without the inner parentheses, which do not change the meaning.
            parts += one.parts if isinstance(one, Combination) and one.operator == operator else [one]
        return Condition._of(Combination(operator, tuple(parts)))

    def __str__(self) -> str:
        return format_expression(self._expression)

    def __repr__(self) -> str:
        return f"Condition.parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self._expression == other._expression

    def __hash__(self) -> int:
        return hash(self._expression)

    def __bool__(self) -> bool:
        """Raise an error, because ``a and b`` would otherwise silently return ``b``.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a Condition is neither true nor false; combine conditions with & and |, not with and and or")

    @property
    def expression(self) -> Expression:
        """The clause, or the combination of clauses.

        >>> from mirror_sdk import Condition
        >>> warm = Condition("/3303/0/5700", above=21)
        >>> warm.expression == warm.clauses[0]
        True
        """
        return self._expression

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses in the order of the text: one, or those of a combination.

        >>> from mirror_sdk import Condition
        >>> [(one.path, one.test, one.low) for one in Condition("/3303/0/5700", above=21).clauses]
        [('/3303/0/5700', 'above', 21.0)]
        """
        return clauses_of(self._expression)

    def intervals(
        self,
        table: pd.DataFrame,
        *,
        by: str = "received_at",
        state: pd.DataFrame | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Return the intervals in which the condition was met, one row for each.

        The columns are listed in ``mirror_sdk.conditions.tables.INTERVALS_COLUMNS``. An interval that has not ended
        by the end of the table has no ``end``, and its ``duration`` counts up to the end of the table. Intervals that
        end before ``begin`` are left out.

        Args:
            table: A history, an events table, or the history of a recording.
            by: The time from which a value counts. With ``received_at``, it is the time at which the service received
                the value, so the result is the same as that of ``client.watch_conditions``. With ``changed_at``, it is
                the time at which the value changed by the device's clock, so values that arrived late count in the
                past.
            state: A state table with the values before the first row, such as ``client.as_of(begin)``. They count from
                the time of the state, and a silence counts from the last report. Without it, nothing is known before
                the first value of a resource.
            begin: The start of the period. The default is the start of the table.
            end: The end of the period. The default is the end of the table.
            tz: The time zone of the result. The default is the time zone of the table.

        Raises:
            ImportError: pandas is not installed.
            TypeError: The table is not a DataFrame of pandas.
            InvalidValue: The table lacks a column, an argument is not valid, or the state is newer than the start of
                the table.

        Warns:
            ConditionWarning: A test does not apply to the type of some values.
            EmptyTableWarning: No row has a path of the condition.

        >>> from mirror_sdk import Condition
        >>> client.read_value("station-01", "/3303/0/5700")
        21.5
        >>> history = client.history(["station-01"])
        >>> Condition("/3303/0/5700", above=20).intervals(history)[["path", "extreme", "gap"]].values.tolist()
        [['/3303/0/5700', 21.5, True]]
        """
        from mirror_sdk.conditions.tables import intervals

        return intervals(self._expression, table, by=by, state=state, begin=begin, end=end, tz=tz)

    def spans(self, table: pd.DataFrame) -> dict[tuple[str, str | None], list[Span]]:
        """Return when the condition was met by the time of change, as the plots of a table show it.

        In contrast to :meth:`intervals`, a span begins when the condition is met, and it is split where the state
        becomes unknown or known.

        Args:
            table: A history, an events table, or the history of a recording.

        Returns:
            The spans for each device id and path, sorted by time. The path is ``None`` for a combination. Each span has
            ``begin`` and ``end`` in milliseconds since 1970, and ``is_known``.

        Raises:
            ImportError: pandas is not installed.
            InvalidValue: The table lacks a column.

        Warns:
            ConditionWarning: A test does not apply to the type of some values.

        >>> from mirror_sdk import Condition
        >>> client.read_value("station-01", "/3303/0/5700")
        21.5
        >>> history = client.history(["station-01"])
        >>> [path for _, path in Condition("/3303/0/5700", above=20).spans(history)]
        ['/3303/0/5700']
        """
        from mirror_sdk.conditions.tables import spans

        return spans(self._expression, table)
