"""A sample extension of another package. It publishes and counts reported values."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flask import Blueprint, Response

from mirror_server.config import setting
from mirror_server.hooks import Measurement, extends
from mirror_server.server import Services
from mirror_server.service.keys import Scope
from mirror_server.store.backend import Storage
from mirror_server.store.changes import ReportedChange
from mirror_server.store.schema import Branch
from mirror_server.store.session import Session
from mirror_server.views.description import ResponseSpec, described, object_like
from mirror_server.views.requests import requires, services
from mirror_server.views.responses import json_response

Publish = Callable[[str, bytes], object]
"""A function that publishes a payload under a topic, like the method of an MQTT client."""

routes = Blueprint("sample", __name__)


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """The settings of the extension."""

    sample_publisher: str | None = setting(
        None, "A function that publishes, as package.module:function.", metavar="NAME"
    )


class Publisher:
    """Publishes the reported values of one server."""

    def __init__(self, server: Services, publish: Publish) -> None:
        self._database = server.database
        self._publish = publish

    @extends
    def values_reported(self, session: Session, batch: Sequence[ReportedChange]) -> None:
        """Count the values in their transaction, and publish them after the commit."""
        session.run("UPDATE sample_counts SET published = published + :count", count=len(batch))
        for reported in batch:
            topic = f"{reported.value.device_id}{reported.value.path}"
            session.after_commit(partial(self._send, topic, reported.value.value))

    def _send(self, topic: str, payload: bytes) -> None:
        self._publish(topic, payload)

    @extends
    def measurements(self) -> Sequence[Measurement]:
        """Return the number of published values as a metric."""
        return [Measurement("sample_published", "Values that were published.", self.count(), is_count=True)]

    def count(self) -> int:
        """Return the number of values that were published since the table was created."""
        published: int = self._database.query(lambda session: session.scalar("SELECT published FROM sample_counts"))
        return published


@extends
def settings() -> type:
    """Return the settings: the option ``--sample-publisher`` and the variable ``MIRROR_SAMPLE_PUBLISHER``."""
    return SampleSettings


@extends
def storage() -> Storage:
    """Return the table with the count."""
    return Storage(branch=Branch("sample", Path(__file__).parent / "migrations"))


@extends
def build(services: Services) -> Sequence[object]:
    """Build the publisher if the setting names one."""
    name = services.settings.of(SampleSettings).sample_publisher
    if name is None:
        return []
    module, _, function = name.partition(":")
    return [Publisher(services, getattr(importlib.import_module(module), function))]


@extends
def blueprints() -> Sequence[Blueprint]:
    """Return the route ``GET /v3/published-count``."""
    return [routes]


@routes.get("/v3/published-count")
@requires(Scope.READ)
@described("Sample", ResponseSpec(200, "The count.", object_like({"published": 3})), is_extension=True)
def get_published_count() -> Response:
    """Return the number of published values."""
    return json_response({"published": services().part(Publisher).count()})
