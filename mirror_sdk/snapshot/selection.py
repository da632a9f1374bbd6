"""Which devices and resources a snapshot shows: checked, sent, and kept with its table, all in this one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mirror_sdk._arguments import path_patterns
from mirror_sdk._protocol import operations as _operations
from mirror_sdk.object_table import SENSOR_UNITS

MAX_IDS_PER_URL = 100
"""The most device ids in a URL that every proxy accepts. More devices are selected by the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a snapshot is taken of.

    Attributes:
        filters: Conditions of the directory, as they are sent.
        device_ids: Only these devices.
        paths: Path patterns; ``None`` takes every resource.
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    device_ids: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        *,
        paths: Sequence[str] | None,
        state: str | None,
        endpoint_type: str | None,
        endpoint_name: str | None,
        filters: Mapping[str, object] | None,
        device_ids: Iterable[str] | None = None,
    ) -> Selection:
        """What a caller asks for, checked.

        Raises:
            TypeError: A pattern is no text.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: ``paths`` is one text, or a pattern is not one.
        """
        conditions = _operations.conditions(
            filters, state=state, endpoint_type=endpoint_type, endpoint_name=endpoint_name
        )
        patterns = path_patterns(paths)
        return cls(
            filters=_operations.filter_texts(conditions),
            device_ids=None if device_ids is None else tuple(dict.fromkeys(device_ids)),
            paths=None if patterns is None else tuple(patterns),
        )

    @classmethod
    def of_kept(cls, kept: Mapping[str, Any]) -> Selection:
        """What :meth:`to_keep` gave.

        Raises:
            AttributeError, LookupError, TypeError: It is something else.
        """
        filters, device_ids, paths = kept["filters"], kept["device_ids"], kept["paths"]
        return cls(
            filters=filters,
            device_ids=None if device_ids is None else tuple(device_ids),
            paths=None if paths is None else tuple(paths),
        )

    def to_keep(self) -> dict[str, object]:
        """What a table keeps of it: lists, as they are when they come back from a file."""
        return {
            "filters": dict(self.filters),
            "device_ids": None if self.device_ids is None else list(self.device_ids),
            "paths": None if self.paths is None else list(self.paths),
        }

    def between(self, after: str | None, last: str | None) -> Selection:
        """Those of its devices whose ids follow one id and go up to another. Source: wire.md 7."""
        bounded = dict(self.filters)
        if after is not None:
            bounded["id__gt"] = max(after, bounded.get("id__gt", after))
        if last is not None:
            bounded["id__lte"] = min(last, bounded.get("id__lte", last))
        return replace(self, filters=bounded)

    @property
    def names_devices(self) -> bool:
        """Whether it is of certain devices, whatever they are like, so that each must be there."""
        return self.device_ids is not None and not self.filters

    @property
    def sent_filters(self) -> dict[str, str]:
        """The conditions the service is given."""
        if self.device_ids is None or len(self.device_ids) > MAX_IDS_PER_URL or "id__in" in self.filters:
            return dict(self.filters)
        return {**self.filters, "id__in": ",".join(self.device_ids)}

    @property
    def sent_paths(self) -> list[str]:
        """The patterns the service is given: also those of the resources that name the units of what is wanted."""
        patterns = self.paths or ()
        units = (
            "/".join([*pattern.split("/")[:3], str(SENSOR_UNITS)]) for pattern in patterns if pattern.count("/") > 2
        )
        return list(dict.fromkeys([*patterns, *units]))

    def ids_among(self, listed: Sequence[str]) -> Sequence[str]:
        """Of the ids of devices that meet the conditions those that are wanted."""
        if self.device_ids is None:
            return listed
        wanted = set(self.device_ids)
        return [one for one in listed if one in wanted]
