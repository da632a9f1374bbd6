from __future__ import annotations

import pytest
from resource_paths import REBOOT, SET_POINT, SWITCH, TEMPERATURE

from mirror_server.devices.interface import (
    CancelObservation,
    Content,
    Execute,
    Observe,
    Outcome,
    Read,
    Write,
    WriteAttributes,
)

DIMMER = "/3311/0/5851"


def text(value: str, content_type: str = "text/plain") -> Content:
    return Content(value.encode(), content_type)


@pytest.fixture
def light(world) -> str:
    return world.seeded("light-01")


def test_read_returns_value_as_text(world):
    device_id = world.add(temperature={"value": "21.4"})
    for accept in (None, "text/plain", "text/plain; charset=utf-8", "*/*"):
        answer = world.send(device_id, Read(TEMPERATURE, accept))
        assert (answer.outcome, answer.content) == (Outcome.DONE, Content(b"21.4", "text/plain")), accept
    assert world.send(device_id, Read(TEMPERATURE, "application/cbor")).outcome is Outcome.UNSUPPORTED_CONTENT_TYPE


@pytest.fixture
def writable(world) -> str:
    """A device with a writable temperature of 21."""
    return world.add(temperature={"value": "21", "writable": True})


@pytest.mark.parametrize("latency_seconds", [0, 2])
def test_silent_device_never_responds(world, writable, latency_seconds):
    world.simulator.set_behavior(writable, answer="silent", latency_seconds=latency_seconds)
    responses = world.send_all(writable, Write(TEMPERATURE, text("22")))
    world.advance(24 * 3600)
    assert (responses, world.value(writable, TEMPERATURE)) == ([], "21")


def test_written_value_replaces_model(world, light):
    assert world.send(light, Write(SWITCH, text("1"))).outcome is Outcome.DONE
    world.advance(20 * 3600)
    assert world.value(light, SWITCH) == "1"
    assert world.send(light, Read(SWITCH)).content == Content(b"1")


def test_device_rejects_invalid_values(world, light):
    for name, path, value, outcome in (
        ("light-01", SWITCH, "0", Outcome.DONE),
        ("light-01", SWITCH, "2", Outcome.BAD_VALUE),
        ("light-01", SWITCH, "true", Outcome.BAD_VALUE),
        ("light-01", DIMMER, "100", Outcome.DONE),
        ("light-01", DIMMER, "101", Outcome.BAD_VALUE),
        ("light-01", DIMMER, "50.5", Outcome.BAD_VALUE),
        ("smart-plug-01", "/3312/0/5850", "0", Outcome.DONE),
        ("smart-plug-01", "/3305/0/5800", "0", Outcome.METHOD_NOT_ALLOWED),
        ("thermostat-01", SET_POINT, "21.5", Outcome.DONE),
        ("thermostat-01", SET_POINT, "4", Outcome.BAD_VALUE),
        ("thermostat-01", TEMPERATURE, "21.5", Outcome.METHOD_NOT_ALLOWED),
        ("thermostat-01", "/3/0/0", "me", Outcome.METHOD_NOT_ALLOWED),
    ):
        device_id = world.id_of(name)
        before = world.value(device_id, path)
        assert world.send(device_id, Write(path, text(value))).outcome is outcome, (name, path, value)
        assert world.value(device_id, path) == (value if outcome is Outcome.DONE else before)
    # A number is not accepted as bytes.
    outcome = world.send(light, Write(DIMMER, text("50", "application/octet-stream"))).outcome
    assert outcome is Outcome.UNSUPPORTED_CONTENT_TYPE


def test_resource_without_rule_accepts_any_text(world):
    device_id = world.add(temperature={"writable": True})
    for payload, content_type, outcome in (
        (b"any text", "text/plain", Outcome.DONE),
        (b"any text", "Text/Plain;charset=utf-8", Outcome.DONE),
        (b"any text", "application/octet-stream", Outcome.DONE),
        (b"any text", "application/json", Outcome.UNSUPPORTED_CONTENT_TYPE),
        (b"\xff", "text/plain", Outcome.BAD_VALUE),
    ):
        command = Write(TEMPERATURE, Content(payload, content_type))
        assert world.send(device_id, command).outcome is outcome, (payload, content_type)


def test_executable_resource_can_only_be_executed(world, light):
    assert world.send(light, Execute(REBOOT, Content(b""))).outcome is Outcome.DONE
    others = [Read(REBOOT), Write(REBOOT, text("1")), WriteAttributes(REBOOT, "pmin=1"), Observe(REBOOT)]
    assert {world.send(light, command).outcome for command in others} == {Outcome.METHOD_NOT_ALLOWED}
    assert world.send(light, Execute(SWITCH, Content(b""))).outcome is Outcome.METHOD_NOT_ALLOWED


def test_written_value_is_sent_to_observers_after_response(world, light):
    assert world.send(light, Observe(SWITCH)).content == Content(world.value(light, SWITCH).encode())
    world.send(light, Write(SWITCH, text("1")))
    world.send(light, Write(SWITCH, text("1")))
    assert world.diary.values(SWITCH) == ["1"]
    assert world.diary.names()[-3:] == ["answered", "observed", "answered"]


def test_notification_attributes_are_accepted(world):
    """A rule is checked against the existing one."""
    accepted = ("pmin=5", "pmax=5", "pmin=5&pmax=120", "pmin=0&pmax=1", "pmin=10&pmax=10")
    no_rules = "", "pmin", "pmin=", "pmin=-1", "pmin=1.5", "pmax=0", "pmin=5&pmax=4", "pmin=1&pmin=2", "gt=20", "pmin=٣"
    device_id = world.add(temperature={})
    for query in accepted:
        assert world.send(device_id, WriteAttributes(TEMPERATURE, query)).outcome is Outcome.DONE, query
    for query in (*no_rules, "x", "pmax=5"):
        assert world.send(device_id, WriteAttributes(TEMPERATURE, query)).outcome is Outcome.BAD_VALUE, query


def test_response_is_delayed_by_latency(world, writable):
    world.simulator.set_behavior(writable, latency_seconds=0.2)
    responses = world.send_all(writable, Write(TEMPERATURE, text("22")))
    world.advance(0.199)
    assert responses == []
    world.advance(0.001)
    assert [response.outcome for response in responses] == [Outcome.DONE]


@pytest.mark.parametrize("leave", ["offline", "deregister"])
def test_device_that_leaves_loses_commands_in_flight(world, writable, leave):
    world.simulator.set_behavior(writable, latency_seconds=5)
    responses = world.send_all(writable, Write(TEMPERATURE, text("22")))
    if leave == "offline":
        world.simulator.set_behavior(writable, online=False)
    else:
        world.simulator.deregister(writable)
    assert [response.outcome for response in responses] == [Outcome.UNAVAILABLE]
    world.advance(60)
    assert (len(responses), world.value(writable, TEMPERATURE)) == (1, "21")


def test_command_to_unreachable_device_is_not_sent(world):
    device_id = world.add(temperature={})
    world.simulator.set_behavior(device_id, online=False)
    for unreachable in (device_id, "0" * 32):
        assert not world.simulator.is_reachable(unreachable)
        assert world.send(unreachable, Read(TEMPERATURE)).outcome is Outcome.NOT_SENT


def test_change_by_command_is_saved_before_response(world, writable):
    changing = Write(TEMPERATURE, text("22")), Observe(TEMPERATURE), WriteAttributes(TEMPERATURE, "pmin=9")
    for command in (*changing, Read(TEMPERATURE)):
        begin = len(world.diary.entries)
        world.send(writable, command)
        saved = ["saved"] if command in changing else []
        assert [name for name, _, _ in world.diary.entries[begin:]][:2] == [*saved, "answered"], command


def test_rejecting_device_and_unknown_path_fail_for_every_command(world, writable):
    without = world.add("without resources")
    world.simulator.set_behavior(writable, answer="reject")
    for command in (
        Read(TEMPERATURE),
        Write(TEMPERATURE, Content(b"1")),
        WriteAttributes(TEMPERATURE, "pmin=1"),
        Execute(TEMPERATURE, Content(b"")),
        Observe(TEMPERATURE),
        CancelObservation(TEMPERATURE),
    ):
        assert world.send(writable, command).outcome is Outcome.REJECTED, command
        assert world.send(without, command).outcome is Outcome.NOT_FOUND, command
    assert world.value(writable, TEMPERATURE) == "21"
