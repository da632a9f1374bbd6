"""The base class of the plans of the synchronous and the asynchronous client. It does not send requests."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from typing import Any

import pandas as pd

from mirror_sdk._formatting import utc_text
from mirror_sdk._protocol.accepted_request import AcceptedRequest, UnacceptedRequest
from mirror_sdk.arrow_tables.columns import documented
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.html import to_html
from mirror_sdk.frames.requests import RequestStatus, cached_requests_frame, request_status
from mirror_sdk.plan.checks import Decision, PlannedWrite
from mirror_sdk.plan.plan_table import PLAN_COLUMNS, plan_frame
from mirror_sdk.plan.requested_writes import RequestedWrite
from mirror_sdk.plan.saved_plan import save
from mirror_sdk.plan.scheduler import WriteScheduler
from mirror_sdk.values import InstanceValues, PythonValue
from mirror_sdk.wire.device_requests import MAX_EXPIRY_SECONDS
from mirror_sdk.wire.model import JsonForm, plain

DEFAULT_CONCURRENCY = 8
DEFAULT_CANARY = 1
DEFAULT_MAX_FAILURES = 5


class PlanReport(JsonForm):
    """The requested writes and their progress.

    In the examples, ``plan`` is the plan for ``[(light, "/3311/0/5851", 40), (light, "/3311/0/5850", "on")]`` before it
    is applied. The second write is invalid, because its value is a string and the resource is a boolean.
    """

    def __init__(self, planned: Sequence[PlannedWrite], server: str, accepted: Mapping[str, AcceptedRequest]) -> None:
        self._planned = planned
        self._server = server
        self._scheduler = WriteScheduler(planned, accepted)

    def __len__(self) -> int:
        return len(self._planned)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary_text()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>{type(self).__name__}</b>: {escape(self.summary_text())}</p>{to_html(self.frame)}"

    @property
    def planned(self) -> Sequence[PlannedWrite]:
        """The requested writes in their order, each with its decision.

        >>> [write.decision.value for write in plan.planned]
        ['write', 'refuse']
        """
        now = {entry.planned.async_id: entry.planned for entry in self._scheduler.entries}
        return [now.get(one.async_id, one) for one in self._planned]

    @property
    def requests(self) -> list[AcceptedRequest | UnacceptedRequest]:
        """The requests of the writes that may be sent, with their current status.

        Reading the property does not call the service.

        >>> [request.path for request in plan.requests]
        ['/3311/0/5851']
        """
        return [entry.request for entry in self._scheduler.entries]

    @property
    def stopped_because(self) -> str | None:
        """The reason why sending ended early, or ``None`` if it did not end early.

        >>> plan.stopped_because is None
        True
        """
        return self._scheduler.stopped_because

    @property
    def is_undoable(self) -> bool:
        """Whether there is anything to undo, which means that a write may have had an effect.

        >>> plan.is_undoable
        False
        """
        return any(entry.may_have_acted for entry in self._scheduler.entries)

    @property
    @documented(PLAN_COLUMNS)
    def frame(self) -> pd.DataFrame:
        """The plan table: one row per requested write, with the current value and the decision.

        The rows are in the order of the writes. The table has the columns of :data:`~mirror_sdk.plan.PLAN_SCHEMA`:

        {columns}

        The last three columns are NA if the write is not sent. If ``check`` is ``changed``, the resource changed after
        the table was read (``if_match``), or after the write to undo. In this case, ``current`` is the new value.

        >>> plan.frame["check"].tolist()
        ['ok', 'wrong_type']
        """
        return plan_frame(self.planned, server=self._server)

    @property
    def result(self) -> pd.DataFrame:
        """The requests table of the writes that may be sent, based on the responses received so far.

        Reading the property does not call the service. For the columns, see :func:`mirror_sdk.frames.requests_frame`.
        If sending ended early, ``attrs["mirror"]["stopped_because"]`` contains the reason.

        >>> plan.result["status"].tolist()
        ['queued']
        """
        names = {one.device_id: one.endpoint_name for one in self.planned}
        device_names = [names.get(request.device_id) for request in self.requests]
        frame = cached_requests_frame(self.requests, server=self._server, names=device_names)
        frame.attrs["mirror"]["stopped_because"] = self.stopped_because
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return the plan and its progress as a JSON-compatible dictionary, without calling the service.

        ``writes`` has one entry for each requested write. The entry has the members ``decision``, ``check`` and
        ``reason``, whether the device ``sleeps``, and the values ``before`` and ``wanted`` as in
        :meth:`~mirror_sdk.Value.to_dict`. A write that may be sent also has ``expiry_seconds``, ``undoable``,
        ``status`` and ``request``. ``decisions`` contains the number of writes for each decision.

        >>> saved = plan.to_dict()
        >>> saved["decisions"], [write["status"] for write in saved["writes"]]
        ({'write': 1, 'skip': 0, 'refuse': 1}, ['queued', None])
        """
        requests = {request.async_id: request for request in self.requests}
        decisions = Counter(one.decision for one in self.planned)
        return {
            "server": plain(self._server),
            "stopped_because": plain(self.stopped_because),
            "decisions": {plain(decision): decisions[decision] for decision in Decision},
            "writes": [_write_to_dict(one, requests.get(one.async_id)) for one in self.planned],
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Save the plan and its progress in a file. ``client.plans.load`` continues the plan, even in another process.

        A write that has ended is not sent again. You can also apply a plan that was saved before its writes were sent.
        The service recognizes their async-ids, usually for a day, and executes no write twice. If devices sleep for
        days, save the plan after you applied it.

        Raises:
            OSError: The file cannot be written.

        >>> plan.save(folder / "plan.json")
        """
        save(path, self._server, self.planned, self.requests)

    def values_before(self) -> list[tuple[str, str, PythonValue | InstanceValues]]:
        """Return the device id, path and earlier value of each write that may be sent. Unknown values are omitted.

        >>> [value for _, _, value in plan.values_before()]
        [10]
        """
        planned = [entry.planned for entry in self._scheduler.entries]
        return [(one.device_id, one.path, one.before.python) for one in planned if one.before.python is not None]

    def _undo(self) -> list[RequestedWrite]:
        # The order is reversed, because a later write may depend on an earlier one.
        return [entry.undo for entry in reversed(self._scheduler.entries) if entry.may_have_acted]

    def summary_text(self) -> str:
        """Return a description of the number of writes for each decision and, after sending started, for each status.

        >>> plan.summary_text()
        '1 to write, 1 rejected; nothing was sent, apply() sends'
        """
        counted = Counter(one.decision for one in self.planned)
        decisions = [f"{counted[decision]} {words}" for decision, words in _DECISIONS.items() if counted[decision]]
        phrases = [", ".join(decisions) or "no writes"]
        if self._is_unsent:
            lost = sum(not one.undoable for one in self._to_write)
            sends = ", apply() sends" if self._to_write else ""
            phrases += [f"{lost} cannot be undone" if lost else "", self.asleep_text(), f"nothing was sent{sends}"]
        else:
            sent = ((status, count) for status, count in self._scheduler.count().items() if status != "queued")
            phrases.append(f"sent: {', '.join(f'{count} {status.value}' for status, count in sorted(sent))}")
            phrases.append(f"stopped: {self.stopped_because}" if self.stopped_because else "")
            asleep = self.asleep_text()
            again = "call apply() again to read the responses (no write is sent twice)"
            phrases.append(f"{asleep}; {again}" if asleep else "")
        return "; ".join(filter(None, phrases))

    def asleep_text(self, expiry_seconds: int | None = None) -> str:
        """Return a description of the number of sleeping devices and how long writes wait for them.

        The string is empty if no write waits.

        Args:
            expiry_seconds: The expiry of the writes, as for ``apply``.

        >>> plan.asleep_text()
        ''
        """
        asleep = self._scheduler.asleep()
        times = [entry.request.expires_at for entry in asleep if isinstance(entry.request, AcceptedRequest)]
        latest = max((at for at in times if at is not None), default=None)
        writes = [entry.planned for entry in asleep] or [one for one in self._to_write if one.sleeps]
        if not writes or not (asleep or self._is_unsent):
            return ""
        within = f"within {span_text(expiry_seconds or max(one.expiry_seconds for one in writes))}"
        until = within if latest is None else f"by {utc_text(latest)} at the latest"
        count = len({one.device_id for one in writes})
        if count == 1:
            return f"1 device sleeps and receives its writes at its next contact, {until}"
        return f"{count} devices sleep and receive their writes at their next contact, {until}"

    @property
    def _to_write(self) -> list[PlannedWrite]:
        return [one for one in self.planned if one.decision is Decision.WRITE]

    @property
    def _is_unsent(self) -> bool:
        return all(entry.status is RequestStatus.QUEUED for entry in self._scheduler.entries)


def span_text(span_seconds: float) -> str:
    """Return a duration in a convenient unit."""
    for unit_seconds, unit in _UNITS:
        if span_seconds >= 2 * unit_seconds:
            return f"{span_seconds / unit_seconds:.3g} {unit}"
    return f"{span_seconds:.3g} s"


_UNITS = ((24 * 3600, "days"), (3600, "h"), (60, "min"))


_MEMBERS = ("async_id", "device_id", "endpoint_name", "path", "unit", "decision", "check", "reason", "sleeps")


def _write_to_dict(one: PlannedWrite, request: AcceptedRequest | UnacceptedRequest | None) -> dict[str, Any]:
    members: dict[str, Any] = plain(
        {name: getattr(one, name) for name in _MEMBERS}
        | {name: getattr(one, name) if one.may_be_sent else None for name in ("expiry_seconds", "undoable")}
        | {"before": one.before, "wanted": one.requested, "status": request and request_status(request)}
        | {"request": request}
    )
    return members


_DECISIONS = {Decision.WRITE: "to write", Decision.SKIP: "to skip", Decision.REFUSE: "rejected"}


def check_limits(
    *, concurrency: int, canary: int, max_failures: int | None, expiry_seconds: int | None, timeout: float | None
) -> None:
    """Check the arguments of ``apply``.

    Raises:
        InvalidValue: An argument is not an integer, or it is out of range; the message names the argument.
    """
    # The comparison is also false for NaN.
    if timeout is not None and not timeout >= 0:
        raise InvalidValue(f"timeout={timeout} must be 0 or more")
    limits: dict[str, tuple[Any, int]] = {
        "concurrency": (concurrency, 1),
        "canary": (canary, 0),
        "max_failures": (0 if max_failures is None else max_failures, 0),
        "expiry_seconds": (1 if expiry_seconds is None else expiry_seconds, 1),
    }
    for name, (value, least) in limits.items():
        if not isinstance(value, numbers.Integral) or value < least:
            raise InvalidValue(f"{name}={value} must be a whole number, {least} or more")
    if expiry_seconds is not None and expiry_seconds > MAX_EXPIRY_SECONDS:
        raise InvalidValue(f"expiry_seconds={expiry_seconds} must be {MAX_EXPIRY_SECONDS} or less")
