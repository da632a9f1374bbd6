"""What a driver told, and what is made of it: which calls passed, which are out, and which nobody ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import outside


@dataclass
class Call:
    """One call of a library, and how its steps went."""

    steps: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> int:
        return self.steps - len(self.failures)


@dataclass(frozen=True)
class Verdict:
    """What came of one program.

    Attributes:
        calls: Each call that was run, in the order of its first step.
        out: Each call that is outside of what a mirror does, and why.
        faults: What is wrong beside failed steps: calls that were neither run nor out, or an early end.
    """

    calls: Mapping[str, Call]
    out: Mapping[str, str]
    faults: tuple[str, ...]

    @property
    def steps(self) -> int:
        return sum(call.steps for call in self.calls.values())

    @property
    def passed(self) -> int:
        return sum(call.passed for call in self.calls.values())

    @property
    def complaints(self) -> list[str]:
        """All that keeps the program from having passed."""
        return [f"{name}: {why}" for name, call in self.calls.items() for why in call.failures] + list(self.faults)

    def as_json(self) -> dict[str, Any]:
        return {
            "calls": {name: [call.steps, call.passed] for name, call in self.calls.items()},
            "out": dict(self.out),
            "complaints": self.complaints,
        }


def judge(lines: Iterable[str], last_words: str) -> Verdict:
    """Read what a driver wrote.

    Args:
        lines: Its standard output; a library may have written some of it.
        last_words: Its standard error, shown where it ended early.
    """
    calls: dict[str, Call] = {}
    there: list[str] = []
    finished = False
    for line in lines:
        if not line.startswith("{"):
            continue
        told = json.loads(line)
        there += told.get("calls", ())
        finished = finished or "finished" in told
        if "call" in told:
            call = calls.setdefault(told["call"], Call())
            call.steps += 1
            if not told["passed"]:
                call.failures.append(f"gave {told['outcome']}, where {told['wanted']} was wanted")
    out = {name: why for name in there if (why := outside.reason(name))}
    faults = [f"{name}: neither run nor named as one that is out" for name in there if name not in {*out, *calls}]
    faults += [f"{name}: named as one that is out, but it runs" for name in calls if outside.reason(name)]
    if not there:
        faults.append("it told no calls of its library")
    if not finished:
        faults.append(f"it ended early: {last_words[-1500:]}")
    return Verdict(calls, out, tuple(faults))
