"""The devices and resources of a snapshot: checked, sent, and stored with its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirror_sdk._arguments import path_patterns
from mirror_sdk._protocol import operations as _operations
from mirror_sdk.object_definitions import SENSOR_UNITS

MAX_IDS_PER_URL = 100
"""The most device ids in a URL that every proxy accepts. More devices are selected by the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The devices and resources of a snapshot.

    Attributes:
        filters: Conditions on devices, as they are sent.
        device_ids: Only these devices; ``None`` for all.
        paths: Path patterns; ``None`` for every resource.
    """

    filters: Mapping[str, str] = field(default_factory=dict)
    device_ids: Sequence[str] | None = None
    paths: Sequence[str] | None = None

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
        """Check the arguments of a caller.

        Raises:
            TypeError: A pattern is not a string.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: A pattern is invalid.
        """
        conditions = _operations.conditions(
            filters, state=state, endpoint_type=endpoint_type, endpoint_name=endpoint_name
        )
        return cls(
            filters=_operations.filter_texts(conditions),
            device_ids=None if device_ids is None else tuple(dict.fromkeys(device_ids)),
            paths=path_patterns(paths),
        )

    def to_metadata(self) -> dict[str, object]:
        """Return the form for the metadata of a table, from which ``Selection(**metadata)`` restores it."""
        return {
            "filters": dict(self.filters),
            "device_ids": None if self.device_ids is None else list(self.device_ids),
            "paths": None if self.paths is None else list(self.paths),
        }

    def between(self, after: str | None, last: str | None) -> Selection:
        """Return the selection of the devices with ids after one id and up to another."""
        bounded = dict(self.filters)
        if after is not None:
            bounded["id__gt"] = max(after, bounded.get("id__gt", after))
        if last is not None:
            bounded["id__lte"] = min(last, bounded.get("id__lte", last))
        return replace(self, filters=bounded)

    @property
    def names_devices(self) -> bool:
        """True if it has devices but no conditions; in this case each of the devices must exist."""
        return self.device_ids is not None and not self.filters

    @property
    def sent_filters(self) -> dict[str, str]:
        """The conditions to send."""
        # Devices that are not sent as a condition are selected from the response.
        if self.device_ids is None or len(self.device_ids) > MAX_IDS_PER_URL or "id__in" in self.filters:
            return dict(self.filters)
        return {**self.filters, "id__in": ",".join(self.device_ids)}

    @property
    def sent_paths(self) -> list[str]:
        """The patterns to send: the selected resources, and the resources that name their units."""
        patterns = self.paths or ()
        units = (
            "/".join([*pattern.split("/")[:3], str(SENSOR_UNITS)]) for pattern in patterns if pattern.count("/") > 2
        )
        return list(dict.fromkeys([*patterns, *units]))

    def ids_among(self, listed: Sequence[str]) -> Sequence[str]:
        """Return the selected ones of the devices that meet the conditions."""
        if self.device_ids is None:
            return listed
        selected = set(self.device_ids)
        return [one for one in listed if one in selected]
