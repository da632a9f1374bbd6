"""What a driver told, and what is made of it: which calls passed, which are out, and which nobody ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import outside


@dataclass(frozen=True)
class Verdict:
    """What came of one program.

    Attributes:
        calls: Each call that was run, in the order of its first step: how many steps it had, and how many passed.
        out: Each call that is outside of what a mirror does, and why.
        complaints: All that keeps the program from having passed: failed steps, calls that were neither run nor out,
            or an early end.
    """

    calls: Mapping[str, list[int]]
    out: Mapping[str, str]
    complaints: list[str]


def judge(lines: Iterable[str], last_words: str) -> Verdict:
    """Read what a driver wrote.

    Args:
        lines: Its standard output; a library may have written some of it.
        last_words: Its standard error, shown where it ended early.
    """
    calls: dict[str, list[int]] = {}
    there: list[str] = []
    complaints: list[str] = []
    finished = False
    for line in lines:
        if not line.startswith("{"):
            continue
        told = json.loads(line)
        there += told.get("calls", ())
        finished = finished or "finished" in told
        if "call" in told:
            counts = calls.setdefault(told["call"], [0, 0])
            counts[0] += 1
            counts[1] += told["passed"]
            if not told["passed"]:
                complaints.append(f"{told['call']}: gave {told['outcome']}, where {told['wanted']} was wanted")
    out = {name: why for name in there if (why := outside.reason(name))}
    complaints += [f"{name}: neither run nor named as one that is out" for name in there if name not in {*out, *calls}]
    complaints += [f"{name}: named as one that is out, but it runs" for name in calls if outside.reason(name)]
    if not there:
        complaints.append("it told no calls of its library")
    if not finished:
        complaints.append(f"it ended early: {last_words[-1500:]}")
    return Verdict(calls, out, complaints)
