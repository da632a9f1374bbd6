"""The devices and resources of a snapshot.

The selection is checked, sent to the service, and stored with the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirror_sdk._arguments import path_patterns
from mirror_sdk._protocol import operations as _operations
from mirror_sdk.object_definitions import SENSOR_UNITS

MAX_IDS_PER_URL = 100
"""The maximum number of device ids in a URL that every proxy accepts.

If there are more, the client selects the devices.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected devices and resources of a snapshot.

    Attributes:
        filters: The conditions on devices, in the form in which they are sent.
        device_ids: The ids of the selected devices; ``None`` for all.
        paths: The path patterns; ``None`` for every resource.
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
        """Return the selection for the arguments of a caller, after checking them.

        Raises:
            TypeError: A pattern is not a string.
            ValueError: A time in ``filters`` has no time zone, or there are several values without ``in``.
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
        """Return the selection for the metadata of a table. ``Selection(**metadata)`` restores it."""
        return {
            "filters": dict(self.filters),
            "device_ids": None if self.device_ids is None else list(self.device_ids),
            "paths": None if self.paths is None else list(self.paths),
        }

    def between(self, after: str | None, last: str | None) -> Selection:
        """Return the selection of the devices whose ids come after one id, up to and including another."""
        bounded = dict(self.filters)
        if after is not None:
            bounded["id__gt"] = max(after, bounded.get("id__gt", after))
        if last is not None:
            bounded["id__lte"] = min(last, bounded.get("id__lte", last))
        return replace(self, filters=bounded)

    @property
    def names_devices(self) -> bool:
        """Whether the selection has device ids but no conditions. In this case, each of the devices must exist."""
        return self.device_ids is not None and not self.filters

    @property
    def sent_filters(self) -> dict[str, str]:
        """The conditions to send to the service."""
        # Devices that are not sent as a condition are selected from the response.
        if self.device_ids is None or len(self.device_ids) > MAX_IDS_PER_URL or "id__in" in self.filters:
            return dict(self.filters)
        return {**self.filters, "id__in": ",".join(self.device_ids)}

    @property
    def sent_paths(self) -> list[str]:
        """The patterns to send, including those of resources that contain the units of the selected resources."""
        patterns = self.paths or ()
        units = (
            "/".join([*pattern.split("/")[:3], str(SENSOR_UNITS)]) for pattern in patterns if pattern.count("/") > 2
        )
        return list(dict.fromkeys([*patterns, *units]))

    def ids_among(self, listed: Sequence[str]) -> Sequence[str]:
        """Return those of the listed devices that are selected. ``listed`` are the devices that meet the conditions."""
        if self.device_ids is None:
            return listed
        selected = set(self.device_ids)
        return [one for one in listed if one in selected]
