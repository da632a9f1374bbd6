"""What a plan says of itself; both kinds of plans have this in common, and nothing in here is sent."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Sequence
from html import escape
from os import PathLike
from typing import Any

import pandas as pd

from mirror_sdk.device_request import PlacedRequest, UnplacedRequest
from mirror_sdk.errors import ValueRefused
from mirror_sdk.frames.requests import RequestStatus, request_status, seen_requests_frame
from mirror_sdk.plan.checks import NO_EARLIER, Decision, PlannedWrite
from mirror_sdk.plan.ledger import Ledger
from mirror_sdk.plan.saved import save
from mirror_sdk.plan.table import plan_frame
from mirror_sdk.plan.wanted import Want
from mirror_sdk.values import PythonValue
from mirror_sdk.wire.device_requests import MAX_EXPIRY_SECONDS
from mirror_sdk.wire.model import JsonForm, plain

DEFAULT_CONCURRENCY = 8
DEFAULT_CANARY = 1
DEFAULT_MAX_FAILURES = 5
DEFAULT_EXPIRY_SECONDS = 60


class PlanReport(JsonForm):
    """The writes that are wanted, and how far they are.

    In the examples ``plan`` is that of ``[(light, "/3311/0/5851", 40), (light, "/3311/0/5850", "on")]``, before it is
    applied: a level, and what is no boolean.
    """

    def __init__(self, planned: Sequence[PlannedWrite], server: str) -> None:
        self._planned = planned
        self._server = server
        self._ledger = Ledger(planned)

    def __len__(self) -> int:
        return len(self._planned)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._summary()}>"

    def _repr_html_(self) -> str:
        # pandas has no type for what notebooks ask of it.
        table: Any = self.frame
        return f"<p><b>{type(self).__name__}</b>: {escape(self._summary())}</p>{table._repr_html_()}"

    @property
    def planned(self) -> Sequence[PlannedWrite]:
        """The writes that are wanted, in their order, and what was found of each.

        >>> [write.finding.decision.value for write in plan.planned]
        ['write', 'refuse']
        """
        return self._planned

    @property
    def requests(self) -> list[PlacedRequest | UnplacedRequest]:
        """The writes that may be sent, as they stand now, each under the async-id of its plan; it asks nobody.

        >>> [request.path for request in plan.requests]
        ['/3311/0/5851']
        """
        return [entry.request for entry in self._ledger.entries]

    @property
    def stopped_because(self) -> str | None:
        """Why sending ended before all was sent; ``None`` when it did not.

        >>> plan.stopped_because is None
        True
        """
        return self._ledger.stopped_because

    @property
    def is_undoable(self) -> bool:
        """Whether any write may have had an effect.

        >>> plan.is_undoable
        False
        """
        return any(entry.may_have_acted for entry in self._ledger.entries)

    @property
    def frame(self) -> pd.DataFrame:
        """The plan table: what is wanted, what was found, what is done about it.

        Its columns are those of :data:`~mirror_sdk.plan.PLAN_SCHEMA`.

        >>> plan.frame["check"].tolist()
        ['ok', 'wrong_type']
        """
        return plan_frame(self._planned, server=self._server)

    @property
    def result(self) -> pd.DataFrame:
        """The requests table of what is to be sent, as it stands now; it asks nobody.

        See :func:`mirror_sdk.frames.requests_frame`; ``attrs["mirror"]["stopped_because"]`` says why sending ended
        early.

        >>> plan.result["status"].tolist()
        ['queued']
        """
        frame = seen_requests_frame(self.requests, server=self._server)
        frame.attrs["mirror"]["stopped_because"] = self.stopped_because
        return frame

    def to_dict(self) -> dict[str, Any]:
        """The plan and how far it is, for any JSON encoder; it asks nobody.

        ``writes`` has one entry for each write that is wanted: ``decision``, ``check`` and ``reason``, what was there
        ``before`` and what is ``wanted`` as :meth:`Value.to_dict` gives them, and for what may be sent its ``status``
        and ``request``. ``decisions`` counts them.

        >>> told = plan.to_dict()
        >>> told["decisions"], [write["status"] for write in told["writes"]]
        ({'write': 1, 'skip': 0, 'refuse': 1}, ['queued', None])
        """
        requests = {request.async_id: request for request in self.requests}
        decisions = Counter(one.finding.decision for one in self._planned)
        return {
            "server": plain(self._server),
            "stopped_because": plain(self.stopped_because),
            "decisions": {plain(decision): decisions[decision] for decision in Decision},
            "writes": [_told(one, requests.get(one.async_id)) for one in self._planned],
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan into a file, from which ``client.load_plan`` takes it up, also in another process.

        It holds the async-ids, not how far the plan is: applied again, what the service knows already is not sent to
        a device twice, as long as it remembers that, a day as a rule.

        Raises:
            OSError: The file cannot be written.

        >>> plan.save(folder / "plan.json")
        """
        save(path, self._server, self._planned)

    def values_before(self) -> list[tuple[str, str, PythonValue]]:
        """Device id, path and what was there before, for all that may be sent; what had no value is left out.

        >>> [value for _, _, value in plan.values_before()]
        [10]
        """
        planned = [entry.planned for entry in self._ledger.entries]
        return [
            (one.want.device_id, one.want.path, one.before.python) for one in planned if one.before.python is not None
        ]

    def _busy(self) -> ValueRefused:
        return ValueRefused("this plan is being applied already; wait for it, or stop() it")

    def _undo(self) -> list[Want]:
        """What to write to have it as it was; of each write that may have had an effect, the last one first."""
        touched = [entry.planned for entry in reversed(self._ledger.entries) if entry.may_have_acted]
        return [
            Want(
                one.want.device_id,
                one.want.path,
                NO_EARLIER if one.before.python is None else one.before.python,
                one.before.content_type if isinstance(one.before.python, bytes) else None,
            )
            for one in touched
        ]

    def _summary(self) -> str:
        decisions = Counter(one.finding.decision for one in self._planned)
        parts = [
            f"{decisions[decision]} {words}" for decision, words in _DECISIONS.items() if decisions[decision] > 0
        ] or ["nothing is wanted"]
        sent = {status: count for status, count in self._ledger.count().items() if status is not RequestStatus.QUEUED}
        if not sent:
            return f"{', '.join(parts)}; nothing was sent, apply() sends"
        told = ", ".join(f"{count} {status.value}" for status, count in sorted(sent.items()))
        because = "" if self._ledger.stopped_because is None else f"; stopped: {self._ledger.stopped_because}"
        return f"{', '.join(parts)}; sent: {told}{because}"


def _told(one: PlannedWrite, request: PlacedRequest | UnplacedRequest | None) -> dict[str, Any]:
    told = {
        "async_id": one.async_id,
        "device_id": one.want.device_id,
        "endpoint_name": one.endpoint_name,
        "path": one.want.path,
        "unit": one.unit,
        "decision": one.finding.decision,
        "check": one.finding.check,
        "reason": one.finding.reason,
        "before": one.before,
        "wanted": one.wanted,
        "status": request and request_status(request),
        "request": request,
    }
    found: dict[str, Any] = plain(told)
    return found


_DECISIONS = {Decision.WRITE: "to write", Decision.SKIP: "to skip", Decision.REFUSE: "refused"}


def check_limits(
    *, concurrency: int, canary: int, max_failures: int | None, expiry_seconds: int, timeout: float | None
) -> None:
    """Refuse what is no way to apply a plan.

    Raises:
        ValueRefused: One of them is no whole number, or too small or too large; the message names it.
    """
    # Also false for the number that is none.
    if timeout is not None and not timeout >= 0:
        raise ValueRefused(f"timeout={timeout} must be 0 or more")
    least = {"concurrency": (concurrency, 1), "canary": (canary, 0), "expiry_seconds": (expiry_seconds, 1)}
    if max_failures is not None:
        least["max_failures"] = (max_failures, 0)
    for name, (value, lowest) in least.items():
        if not _is_whole(value) or value < lowest:
            raise ValueRefused(f"{name}={value} must be a whole number, {lowest} or more")
    if expiry_seconds > MAX_EXPIRY_SECONDS:
        raise ValueRefused(f"expiry_seconds={expiry_seconds} must be {MAX_EXPIRY_SECONDS} or less")


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral)
