"""The subscription rules of a recording.

A recorder warns of paths without a subscription, and can add rules while it records. All clients with the same access
key share their rules, so a recorder removes only the rules that it added itself. They are saved in the sidecar folder
before they are added. If the recorder is killed, the next recorder with the folder removes them.

Except for the folder, nothing in this module does I/O: it yields the requests, and the client sends them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd

from mirror_sdk._formatting import visible_line
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.flow import Flow, Work
from mirror_sdk._protocol.rule_changes import add_rules, remove_rules
from mirror_sdk.device_lookup import all_devices, devices_with
from mirror_sdk.errors import InvalidValue, MirrorError
from mirror_sdk.events import event_filter
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.paths import matches
from mirror_sdk.wire.subscriptions import MAX_RULES, PresubscriptionRule

_MAX_REQUESTS = 32
"""The maximum number of devices without a rule whose subscriptions are requested individually."""
_MAX_NAMES = 3


class RecordingRules:
    """The subscription rules that a recording needs.

    Args:
        devices: The ids of the devices to record; ``None`` for all.
        paths: The path patterns to record; ``None`` for all.
        adds_rules: Whether to add rules during the recording.

    Raises:
        TypeError: A single string was passed instead of a list of strings.
        ValueError: A path is not valid in a rule.
        InvalidValue: A pattern cannot match any path, or there would be more rules than an access key can have.
    """

    def __init__(self, devices: Sequence[str] | None, paths: Sequence[str] | None, *, adds_rules: bool) -> None:
        self._devices = devices
        self._paths = paths
        event_filter(paths, devices)  # raises for anything but a list of patterns
        self._rules = _rules_for(devices, paths) if adds_rules else None

    def start(self, folder: RecordingFolder) -> Flow[None]:
        """Add the rules, if requested, and apply them to the registered devices."""
        if self._rules is None:
            return
        # A killed recorder may have left rules.
        former = folder.rules
        # The rules are saved before the service has them. If this process is killed in between, the next recorder
        # removes them.
        added = yield from add_rules(
            self._rules, apply_now=True, announce=lambda new: folder.save_rules([*former, *new])
        )
        # Rules that existed earlier belong to other programs, and remain when the recording ends.
        yield Work(partial(folder.save_rules, [*former, *added]))

    def end(self, folder: RecordingFolder) -> Flow[None]:
        """Remove the rules that this recorder or a killed recorder added."""
        if folder.rules:
            yield from remove_rules(folder.rules)
            yield Work(partial(folder.save_rules, []))

    def uncovered(self, state: pd.DataFrame) -> Flow[str | None]:
        """Return a warning about patterns that no rule and no subscription covers, or ``None`` if all are covered.

        Args:
            state: The state table of the recorded devices and paths.
        """
        # Without paths, all events that arrive are recorded. If the recording adds rules, they cover its paths.
        if self._paths is None or self._rules is not None:
            return None
        try:
            rules = (yield _operations.get_presubscriptions()).rules
            devices = {device.id: device for device in (yield from self._list()) if device.state == "registered"}
            found = yield Work(partial(_find, state, self._paths, devices))
            open_paths = yield Work(partial(_without_rule, found.paths, rules, devices))
            yield from _drop_subscribed(open_paths, found.observed)
        except MirrorError as error:
            # The recording starts despite the error.
            return f"cannot check whether a rule or a subscription covers {', '.join(self._paths)}: {error}"
        unmet = [
            pattern
            for pattern in self._paths
            if not found.paths[pattern] and not any(self._may_cover(rule, pattern, devices.values()) for rule in rules)
        ]
        return _warning(open_paths, unmet, devices)

    def _list(self) -> Flow[list[Device]]:
        if self._devices is None:
            return (yield from all_devices({"state": "registered"}))
        return (yield from devices_with("id", self._devices))

    def _may_cover(self, rule: PresubscriptionRule, pattern: str, devices: Iterable[Device]) -> bool:
        """Return whether a rule may cover a pattern later, for one of the devices or for a new device."""
        if not any(_overlap(pattern, path) for path in rule.resource_path or ["*"]):
            return False
        return self._devices is None or any(_matches_device(rule, device) for device in devices)


_Paths = dict[str, dict[str, list[str]]]
"""The ids of devices and their matching paths, by pattern."""


class _Found(NamedTuple):
    """The recorded resources of registered devices, and the paths of each device that are observed for any client."""

    paths: _Paths
    observed: Mapping[str, set[str]]


def _rules_for(devices: Sequence[str] | None, paths: Sequence[str] | None) -> list[PresubscriptionRule]:
    """Return the rules that subscribe to these paths of these devices. ``None`` means all paths or all devices."""
    if devices is not None and len(devices) > MAX_RULES:
        raise InvalidValue(
            f"devices: each of the {len(devices)} devices needs a rule, but a key can have at most {MAX_RULES} rules;"
            " record without devices=, or add your own rules, such as one for an endpoint type"
        )
    names = [{}] if devices is None else [{"endpoint_name": device} for device in devices]
    of_paths = {} if paths is None else {"resource_path": list(paths)}
    return _operations.checked_rules([{**name, **of_paths} for name in names])


def _find(state: pd.DataFrame, patterns: Iterable[str], devices: Mapping[str, Device]) -> _Found:
    paths: _Paths = {pattern: {} for pattern in patterns}
    observed = defaultdict(set)
    patterns_of = {path: [pattern for pattern in paths if matches(pattern, path)] for path in state["path"].unique()}
    for device_id, path, is_observed in zip(state["device_id"], state["path"], state["subscribed"], strict=True):
        if device_id not in devices:
            continue
        for pattern in patterns_of[path]:
            paths[pattern].setdefault(device_id, []).append(path)
        if is_observed:
            observed[device_id].add(path)
    return _Found(paths, observed)


def _without_rule(found: _Paths, rules: Sequence[PresubscriptionRule], devices: Mapping[str, Device]) -> _Paths:
    device_ids = {device_id for of_pattern in found.values() for device_id in of_pattern}
    rules_of = {one: [rule for rule in rules if _matches_device(rule, devices[one])] for one in device_ids}
    return {
        pattern: {
            device_id: paths
            for device_id, paths in of_pattern.items()
            if not any(rule.matches_path(path) for rule in rules_of[device_id] for path in paths)
        }
        for pattern, of_pattern in found.items()
    }


def _matches_device(rule: PresubscriptionRule, device: Device) -> bool:
    return rule.matches_device(
        device_id=device.id, endpoint_name=device.endpoint_name, endpoint_type=device.endpoint_type or ""
    )


def _drop_subscribed(found: _Paths, observed: Mapping[str, set[str]]) -> Flow[None]:
    """Remove devices that have a subscription of this key.

    Beyond the limit of requests, remove the devices that are observed for any client.
    """
    device_ids = {device_id for of_pattern in found.values() for device_id in of_pattern}
    # Observed devices come first. For these, only a request shows whether the subscription belongs to this key.
    for number, device_id in enumerate(sorted(device_ids, key=lambda one: (one not in observed, one))):
        covered = observed.get(device_id, set())
        if number < _MAX_REQUESTS:
            covered = set((yield _operations.list_subscriptions(device_id)))
        for of_pattern in found.values():
            if not covered.isdisjoint(of_pattern.get(device_id, ())):
                del of_pattern[device_id]


def _overlap(one: str, other: str) -> bool:
    return matches(one, other.removesuffix("*")) or matches(other, one.removesuffix("*"))


def _warning(found: _Paths, unmet: Sequence[str], devices: Mapping[str, Device]) -> str | None:
    lines = [f"{pattern} of {_names(map(devices.__getitem__, ids))}" for pattern, ids in found.items() if ids]
    lines += [f"{pattern} (which no registered device has)" for pattern in unmet]
    if not lines:
        return None
    return (
        f"no rule or subscription of this key covers {', '.join(lines)}, so their values do not arrive. To add rules"
        " for the duration of the recording, use record(..., subscribe=True), or --subscribe in a shell; to add them"
        " permanently, use client.subscriptions.rules.add(), or mirror rules --add"
    )


def _names(devices: Iterable[Device]) -> str:
    names = sorted(visible_line(device.endpoint_name) for device in devices)
    more = [f"{len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    return f"{len(names)} device{'s' if len(names) > 1 else ''} ({', '.join([*names[:_MAX_NAMES], *more])})"
