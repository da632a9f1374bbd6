"""Any sequence of what devices and applications do: the rows of the history are a list of it that is kept by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.errors import Refusal
from mirror_server.devices.dispatch import Job
from mirror_server.devices.link import (
    Answer,
    Content,
    IntroducedResource,
    NotRegistered,
    Observation,
    Observe,
    Outcome,
    Registration,
)
from mirror_server.service.commands import Placement
from mirror_server.store import history, resources
from mirror_server.store.maintenance import violations

NAMES = ("kitchen", "hall", "cellar")
PATHS = ("/3303/0/5700", "/3303/1/5700", "/3/0/0")
LIFETIMES_SECONDS = {"kitchen": 301, "hall": 304, "cellar": 308}
EXPIRY_SECONDS = 97
"""Such that no two things end in one instant, however time passes in between."""
APPLICATION = "0123456789abcdef"

CONTENTS = st.builds(
    Content,
    st.binary(max_size=8),
    st.sampled_from(["text/plain", "application/octet-stream", "application/vnd.oma.lwm2m+json"]),
    st.sampled_from([None, 60]),
)
NAMED = st.sampled_from(NAMES)
PATH = st.sampled_from(PATHS)
EARLIER = st.sampled_from([0, 1, 5_000, 86_400_000, -3_600_000])
"""How many milliseconds before now a device says that a value changed; some clocks go ahead."""
TOLD = st.tuples(NAMED, PATH, CONTENTS, EARLIER, st.booleans(), st.booleans())

ORIGINS = {"observation": "subscription", "registration": "auto_observation"}


class Happening(RuleBasedStateMachine):
    """Plays the device side, and writes down beside it what has to be in the history."""

    def __init__(self, server_class: Any, folder: Path) -> None:
        super().__init__()
        self.server = server_class(folder, keep_history_seconds=86_400)
        self.expected: list[tuple[Any, ...]] = []
        self.ids: dict[str, str] = {}
        self.ends_at: dict[str, int] = {}
        self.waiting: list[Command] = []
        self.ended: list[Command] = []

    @property
    def services(self) -> Any:
        return self.server.services

    def note(self, what: str, origin: str | None = None, **more: Any) -> None:
        names = ("name", "path", "changed_at", "value", "content_type", "status", "category", "requested_at", "until")
        about = {"changed_at": self.server.now, **more}
        self.expected.append((what, origin, self.server.now, *(about.get(name) for name in names)))

    @initialize()
    def begin(self) -> None:
        self.come(NAMES[0])

    @rule(name=NAMED)
    def register(self, name: str) -> None:
        self.come(name)

    def come(self, name: str) -> None:
        introduced = tuple(IntroducedResource(path, auto_observed=path == PATHS[2]) for path in PATHS)
        told = Registration(name, "Sensor", False, LIFETIMES_SECONDS[name], introduced)
        self.ids[name] = self.services.devices.registered(told).result(60)
        self.ends_at[name] = self.server.now + 1000 * LIFETIMES_SECONDS[name]
        self.note("registration", name=name)

    @rule(name=NAMED)
    def update(self, name: str) -> None:
        updated = self.services.devices.registration_updated(self.ids.get(name, "nobody"))
        if name not in self.ends_at:
            with pytest.raises(NotRegistered):
                updated.result(60)
            return
        updated.result(60)
        self.ends_at[name] = self.server.now + 1000 * LIFETIMES_SECONDS[name]
        self.note("reg_update", name=name)

    @rule(name=NAMED)
    def deregister(self, name: str) -> None:
        self.services.devices.deregistered(self.ids.get(name, "nobody")).result(60)
        if name in self.ids:
            self.ends_at.pop(name, None)
            self.note("deregistration", name=name)
            for command in [each for each in self.waiting if each.device_id == self.ids[name]]:
                self.end(command, "DEVICE_REMOVED_REGISTRATION")

    @rule(groups=st.lists(st.lists(TOLD, max_size=6), min_size=1, max_size=3))
    def observe(self, groups: list[list[tuple[Any, ...]]]) -> None:
        """Several groups at once, which may become one transaction."""
        now = self.server.now
        futures = []
        for group in groups:
            told = [
                Observation(self.ids.get(name, name), path, content, now - earlier, unasked or published, published)
                for name, path, content, earlier, unasked, published in group
            ]
            futures.append(self.services.devices.observed(told))
            for name, path, content, earlier, unasked, published in group:
                if name in self.ids:
                    heard = "auto_observation" if unasked or path == PATHS[2] else "observation"
                    self.reported("registration" if published else heard, name, path, content, now - earlier)
        for future in futures:
            future.result(60)

    def reported(self, origin: str, name: str, path: str, content: Content, changed_at: int) -> None:
        about = {"value": content.payload, "content_type": content.content_type}
        self.note("reported", origin, name=name, path=path, changed_at=changed_at, **about)

    @rule(name=NAMED, path=PATH, content=CONTENTS, earlier=st.none() | EARLIER)
    def observe_begins(self, name: str, path: str, content: Content, earlier: int | None) -> None:
        if name not in self.ids:
            return
        told_at = None if earlier is None else self.server.now - earlier
        job = Job(self.ids[name], Observe(path))
        answer = Answer(Outcome.DONE, content, told_at)
        self.services.database.write(lambda session: self.services.subscriptions.finish(session, job, answer))
        self.reported("observation", name, path, content, self.server.now if told_at is None else told_at)

    @rule(name=NAMED, path=PATH, payload=st.binary(max_size=8) | st.none())
    def place(self, name: str, path: str, payload: bytes | None) -> None:
        """A write, or without a payload a read; both wait, as no such device is connected."""
        method = "GET" if payload is None else "PUT"
        content_type = None if payload is None else "text/plain"
        request = CommandRequest(method, path, payload=payload, content_type=content_type)
        placement = Placement(APPLICATION, self.ids.get(name, "nobody"), request, expiry_seconds=EXPIRY_SECONDS)
        placed = self.services.commands.place(placement)
        try:
            placed.result(60)
        except Refusal:
            return
        listed = self.services.commands.waiting(APPLICATION, device_id=None, after=None, limit=1000)
        self.waiting = [command for command, _ in listed]

    def end(self, command: Command, category: str | None) -> None:
        self.waiting = [each for each in self.waiting if each.command_id != command.command_id]
        self.ended.append(command)
        if command.request.is_write:
            self.note(
                "desired",
                "write",
                name=self.name_of(command),
                path=command.request.path,
                value=command.request.payload,
                content_type="text/plain",
                status=1 if category is None else 2,
                category=category,
                requested_at=command.requested_at,
            )

    def name_of(self, command: Command) -> str:
        return next(name for name, device_id in self.ids.items() if device_id == command.device_id)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), content=CONTENTS, earlier=st.none() | EARLIER)
    def answer(self, data: st.DataObject, content: Content, earlier: int | None) -> None:
        """In any order, as devices and their outages have it."""
        command = data.draw(st.sampled_from(self.waiting))
        outcome = data.draw(st.sampled_from([Outcome.DONE, Outcome.BAD_VALUE, Outcome.UNAVAILABLE]))
        self.finish(command, outcome, content, earlier)
        self.end(command, outcome.value[1])
        self.read_brought(command, outcome, content, earlier)

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), content=CONTENTS, earlier=st.none() | EARLIER)
    def answer_late(self, data: st.DataObject, content: Content, earlier: int | None) -> None:
        command = data.draw(st.sampled_from(self.ended))
        self.finish(command, Outcome.DONE, content, earlier)
        self.read_brought(command, Outcome.DONE, content, earlier)

    def finish(self, command: Command, outcome: Outcome, content: Content, earlier: int | None) -> None:
        brought = content if outcome is Outcome.DONE and command.request.method == "GET" else None
        answer = Answer(outcome, brought, None if earlier is None else self.server.now - earlier)
        self.services.database.write(lambda session: self.services.commands.finish(session, [(command, answer)]))

    def read_brought(self, command: Command, outcome: Outcome, content: Content, earlier: int | None) -> None:
        if outcome is Outcome.DONE and command.request.method == "GET":
            self.reported(
                "read", self.name_of(command), command.request.path, content, self.server.now - (earlier or 0)
            )

    @rule(milliseconds=st.sampled_from([10, 61_010, 150_020, 900_070]))
    def let_time_pass(self, milliseconds: int) -> None:
        until = self.server.now + milliseconds
        due = [(command.expires_at, command) for command in self.waiting]
        due += [(at, name) for name, at in self.ends_at.items()]
        before = self.server.now
        self.services.bench.run(lambda bench: bench.advance(milliseconds / 1000)).result(60)
        assert self.server.now == until
        for at, ending in sorted((each for each in due if before < each[0] <= until), key=lambda each: each[0]):
            self.note_end(at, ending)

    def note_end(self, at: int, ending: Command | str) -> None:
        begin = len(self.expected)
        if isinstance(ending, Command):
            self.end(ending, "REQUEST_EXPIRED")
        else:
            del self.ends_at[ending]
            self.note("expired", name=ending)
        # Noted now, and happened on the way.
        self.expected[begin:] = [(*row[:2], at, *row[3:5], at, *row[6:]) for row in self.expected[begin:]]

    @rule()
    def restart(self) -> None:
        self.server.restart()

    @invariant()
    def the_rows_are_those_that_were_written_down(self) -> None:
        assert self.services.database.settle(60)
        with self.services.database.read() as session:
            rows = [row for some in history.tail(session, 0, 100) for row in some]
        assert [
            (
                *(row.what, row.origin, row.received_at, row.endpoint_name, row.path, row.changed_at),
                *(row.value, row.content_type, row.status, row.category, row.requested_at, row.until),
            )
            for row in rows
        ] == self.expected
        revisions = [row.revision for row in rows]
        assert revisions == sorted(set(revisions))
        assert {row.app_id for row in rows} <= {None, APPLICATION}
        assert all(row.device_id == self.ids[row.endpoint_name or ""] for row in rows)

    @invariant()
    def the_mirror_shows_the_row_it_names(self) -> None:
        with self.services.database.read() as session:
            rows = {row.revision: row for some in history.tail(session, 0, 100) for row in some}
            for name, device_id in self.ids.items():
                for resource in resources.of_device(session, device_id):
                    if resource.reported_revision is not None:
                        row = rows[resource.reported_revision]
                        assert (row.endpoint_name, row.path, row.value) == (
                            name,
                            resource.path,
                            resource.reported_value,
                        )
                        assert resource.reported_origin == ORIGINS.get(row.origin or "", row.origin)

    @invariant()
    def the_database_is_sound(self) -> None:
        with self.services.database.read() as session:
            assert list(violations(session)) == []

    def teardown(self) -> None:
        self.services.close()


@pytest.fixture
def new_folder(tmp_path: Path) -> Callable[[], Path]:
    numbers = itertools.count()

    def make() -> Path:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return folder

    return make


def test_the_rows_are_a_list_of_what_happened(server: Any, new_folder: Callable[[], Path]) -> None:
    run_state_machine_as_test(
        lambda: Happening(type(server), new_folder()),
        settings=settings(
            max_examples=12,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )
