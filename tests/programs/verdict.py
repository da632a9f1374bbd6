"""Evaluates the output of a driver: the calls that passed, are out of scope, or were not run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import outside


@dataclass(frozen=True)
class Verdict:
    """The result of one program.

    Attributes:
        calls: Number of steps and of passed steps of each call, in the order of their first steps.
        out: The calls that are out of scope, with the reason.
        complaints: Failed steps, calls that were neither run nor out of scope, or an early end. Empty if the program
            passed.
    """

    calls: Mapping[str, list[int]]
    out: Mapping[str, str]
    complaints: list[str]


def judge(lines: Iterable[str], last_words: str) -> Verdict:
    """Evaluate the output of a driver.

    Args:
        lines: Its standard output; a library may have written some of it.
        last_words: Its standard error, quoted if it ended early.
    """
    calls: dict[str, list[int]] = {}
    there: list[str] = []
    complaints: list[str] = []
    finished = False
    for line in lines:
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        there += message.get("calls", ())
        finished = finished or "finished" in message
        if "call" in message:
            counts = calls.setdefault(message["call"], [0, 0])
            counts[0] += 1
            counts[1] += message["passed"]
            if not message["passed"]:
                complaints.append(f"{message['call']}: returned {message['outcome']}, expected {message['expected']}")
    out = {name: why for name in there if (why := outside.reason(name))}
    complaints += [f"{name}: neither run nor out of scope" for name in there if name not in {*out, *calls}]
    complaints += [f"{name}: out of scope, but it was run" for name in calls if outside.reason(name)]
    if not there:
        complaints.append("it listed no calls of its library")
    if not finished:
        complaints.append(f"it ended early: {last_words[-1500:]}")
    return Verdict(calls, out, complaints)
