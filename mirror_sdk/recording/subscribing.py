"""The rules of what is recorded: which of it none covers, and those that are there only while it is recorded.

Rules are shared by all that use the key, so a recorder takes away those alone that it added itself. Which these are
stands beside its folder before they are put: where it is killed, the next recorder with the folder takes them away.

Nothing in here does I/O but for that note: what is to be sent is yielded, and the client sends it. Source: wire.md 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import pandas as pd

from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.rules import add_rules, remove_rules
from mirror_sdk._protocol.steps import Steps, Work
from mirror_sdk._visible import visible_line
from mirror_sdk.errors import InvalidValue, MirrorError
from mirror_sdk.events import event_filter
from mirror_sdk.naming import all_devices, devices_with
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.paths import matches
from mirror_sdk.wire.subscriptions import MAX_RULES, PresubscriptionRule

_MOST_ASKED = 32
"""The most devices without a rule whose subscriptions are looked up, one by one."""
_MOST_NAMED = 3

_Open: TypeAlias = "dict[str, dict[str, _RecordedDevice]]"
"""The devices, by their ids, of which nothing is covered that matches a path pattern; for each pattern."""


@dataclass(slots=True)
class _RecordedDevice:
    """What a device has that is to be recorded.

    Attributes:
        id: Its device id.
        endpoint_name: Its endpoint name.
        paths: The resources.
        is_observed: Whether the device sends one of them to somebody.
        endpoint_type: Its endpoint type, which the state table does not tell.
    """

    id: str
    endpoint_name: str
    paths: list[str] = field(default_factory=list)
    is_observed: bool = False
    endpoint_type: str | None = None


class Subscribing:
    """What a recorder has to do with the rules of its key.

    Args:
        devices: Ids of the devices to record; ``None`` for all.
        paths: Path patterns to record; ``None`` for all.
        adds_rules: Whether they are subscribed while it records.

    Raises:
        TypeError: A single text was given where a list of texts belongs.
        ValueError: A path cannot stand in a rule.
        InvalidValue: A pattern can match no path, or there would be more rules than a key can have.
    """

    def __init__(self, devices: Sequence[str] | None, paths: Sequence[str] | None, *, adds_rules: bool) -> None:
        self._devices = devices
        self._paths = paths
        # Which refuses what is no list of patterns.
        event_filter(paths, devices)
        self._rules = _rules_for(devices, paths) if adds_rules else None

    def begin(self, folder: RecordingFolder) -> Steps[None]:
        """Add the rules, if they are to be, and apply them to the devices that are registered now."""
        if self._rules is None:
            return
        # What one left that was killed.
        kept = folder.rules
        added = yield from add_rules(self._rules, apply_now=True, announce=lambda new: folder.note_rules([*kept, *new]))
        yield Work(partial(folder.note_rules, [*kept, *added]))

    def end(self, folder: RecordingFolder) -> Steps[None]:
        """Take away what was added, now or by a recorder that was killed."""
        if folder.rules:
            yield from remove_rules(folder.rules)
            yield Work(partial(folder.note_rules, []))

    def look(self, state: pd.DataFrame) -> Steps[str | None]:
        """What is to be said of patterns that nothing covers; ``None`` where there is nothing to say.

        Args:
            state: The state table of what is recorded.
        """
        if self._paths is None or self._rules is not None:
            return None
        try:
            rules = (yield _operations.get_presubscriptions()).rules
            held = yield Work(partial(_held_of, state, self._paths))
            if all(held.values()) and not any((yield Work(partial(_without_rule, held, rules))).values()):
                return None
            listed = {device.id: device for device in (yield from self._list())}
            found = yield Work(partial(_without_rule, held, rules, listed))
            yield from _leave_out_subscribed(found)
        except MirrorError as error:
            # It records what comes in any case.
            return f"whether anything of {', '.join(self._paths)} is subscribed is not known: {error}"
        unmet = [
            pattern
            for pattern in self._paths
            if not any(_is_registered(listed.get(device_id)) for device_id in held[pattern])
            and not any(self._may_bring(rule, pattern, listed) for rule in rules)
        ]
        return _told(found, unmet)

    def _list(self) -> Steps[list[Device]]:
        if self._devices is None:
            return (yield from all_devices({"state": "registered"}))
        return (yield from devices_with("id", self._devices))

    def _may_bring(self, rule: PresubscriptionRule, pattern: str, listed: Mapping[str, Device]) -> bool:
        """Whether a rule may bring something of a pattern later, from one of the devices or from one still to come."""
        if not any(_overlap(pattern, path) for path in rule.resource_path or ["*"]):
            return False
        return self._devices is None or any(_is_about(rule, device) for device in listed.values())


def _rules_for(devices: Sequence[str] | None, paths: Sequence[str] | None) -> list[PresubscriptionRule]:
    """The rules that subscribe these paths of these devices; ``None`` is all of them.

    Raises:
        InvalidValue: There would be more than a key can have.
    """
    if devices is not None and len(devices) > MAX_RULES:
        raise InvalidValue(
            f"devices: each needs a rule, and {len(devices)} are more than the {MAX_RULES} of a key; record without"
            " devices=, or add rules of your own, such as for an endpoint type"
        )
    names = [{}] if devices is None else [{"endpoint_name": device} for device in devices]
    of_paths = {} if paths is None else {"resource_path": list(paths)}
    return _operations.checked_rules([{**name, **of_paths} for name in names])


def _held_of(state: pd.DataFrame, patterns: Iterable[str]) -> _Open:
    """The devices that have something that matches a pattern, for each pattern."""
    columns = (state[name] for name in ("device_id", "endpoint_name", "path", "subscribed"))
    rows = list(zip(*columns, strict=True))
    found: _Open = {pattern: {} for pattern in patterns}
    meant = {path: [pattern for pattern in found if matches(pattern, path)] for path in {row[2] for row in rows}}
    for device_id, name, path, is_subscribed in rows:
        for pattern in meant[path]:
            held = found[pattern].setdefault(device_id, _RecordedDevice(device_id, str(name)))
            held.paths.append(path)
            held.is_observed |= bool(is_subscribed)
    return found


def _without_rule(
    held: _Open, rules: Sequence[PresubscriptionRule], listed: Mapping[str, Device] | None = None
) -> _Open:
    """Those of which no rule covers anything, whatever their types; of those that are listed only the registered."""
    of_device: dict[str, list[PresubscriptionRule]] = {}

    def is_open(one: _RecordedDevice) -> bool:
        device = None if listed is None else listed.get(one.id)
        if listed is not None and not _is_registered(device):
            return False
        if one.id not in of_device:
            of_device[one.id] = [rule for rule in rules if _is_about(rule, device or one)]
        return not any(rule.matches_path(path) for rule in of_device[one.id] for path in one.paths)

    return {
        pattern: {device_id: one for device_id, one in devices.items() if is_open(one)}
        for pattern, devices in held.items()
    }


def _is_registered(device: Device | None) -> bool:
    return device is not None and device.state == "registered"


def _is_about(rule: PresubscriptionRule, device: Device | _RecordedDevice) -> bool:
    return rule.matches_device(
        device_id=device.id, endpoint_name=device.endpoint_name, endpoint_type=device.endpoint_type or ""
    )


def _leave_out_subscribed(found: _Open) -> Steps[None]:
    """Leave out devices that have a subscription of their own; of many, also what is observed for anybody."""
    of_device: dict[str, list[tuple[dict[str, _RecordedDevice], _RecordedDevice]]] = defaultdict(list)
    for devices in found.values():
        for device_id, one in devices.items():
            of_device[device_id].append((devices, one))
    observed_first = sorted(
        of_device, key=lambda device_id: not any(one.is_observed for _, one in of_device[device_id])
    )
    for number, device_id in enumerate(observed_first):
        subscribed: list[str] = []
        if number < _MOST_ASKED:
            subscribed = yield _operations.list_subscriptions(device_id)
        for devices, one in of_device[device_id]:
            if not set(one.paths).isdisjoint(subscribed) or (number >= _MOST_ASKED and one.is_observed):
                del devices[device_id]


def _overlap(one: str, other: str) -> bool:
    return matches(one, other.removesuffix("*")) or matches(other, one.removesuffix("*"))


def _told(found: _Open, unmet: Sequence[str]) -> str | None:
    parts = [f"{pattern} of {_named(devices)}" for pattern, devices in found.items() if devices]
    parts += [f"{pattern} (which no registered device has)" for pattern in unmet]
    if not parts:
        return None
    return (
        f"no rule and no subscription of this key covers {', '.join(parts)}: nothing of it comes until one does;"
        " record(..., subscribe=True), or --subscribe in a shell, adds rules for as long as it records,"
        " client.subscriptions.rules.add(), or mirror rules --add, for good"
    )


def _named(devices: Mapping[str, _RecordedDevice]) -> str:
    names = sorted(visible_line(one.endpoint_name) for one in devices.values())
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return f"{len(names)} device{'s' if len(names) > 1 else ''} ({', '.join([*names[:_MOST_NAMED], *more])})"
