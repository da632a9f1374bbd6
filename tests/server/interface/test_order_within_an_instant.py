"""The order of changes within one instant: the revisions in E1. Source: wire.md 1."""

from __future__ import annotations

import random

import pytest
from device_resources import control
from resource_paths import LEVEL

from mirror_server.devices.interface import Content, Observation

POWER = "/3311/0/5850"


@pytest.fixture
def light(server, key):
    """A light on a manual clock, so that all events have the same time."""
    level = control(LEVEL, "94")
    power = control(POWER, "1")
    return server.add_device(key, "light", level, power)


def numbers(server, key, light) -> tuple[int | None, int | None]:
    resource = server.resource(key, light, LEVEL)
    return resource["reported"].get("revision"), resource["desired"].get("revision")


def test_observation_during_a_write_is_ordered_between_issue_and_success(server, key, light):
    server.patch(key, light, latency_seconds=10)
    server.submit(key, light, "write", "PUT", LEVEL, value="40")
    _, issued = numbers(server, key, light)
    for value, device_time in ((b"94", server.now), (b"93", server.now - 60_000)):
        observation = Observation(light, LEVEL, Content(value), device_time)
        server.services.devices.observed([observation]).result(60)
    observed, still = numbers(server, key, light)
    assert (still, observed > issued) == (issued, True)
    server.advance(key, 10)
    resource = server.resource(key, light, LEVEL)
    assert (resource["desired"]["status"], resource["reported"]["value"]) == (1, "OTM=")
    assert resource["desired"]["revision"] > resource["reported"]["revision"] == observed


def test_older_write_that_ends_later_changes_nothing(server, key, light):
    server.patch(key, light, online=False)
    server.submit(key, light, "first", "PUT", LEVEL, value="40", expiry_seconds=60)
    server.submit(key, light, "second", "PUT", LEVEL, value="41")
    superseding = numbers(server, key, light)
    server.advance(key, 61)
    assert server.responses(key) == {"first": (429, "REQUEST_EXPIRED")}
    assert numbers(server, key, light) == superseding


@pytest.mark.parametrize("seed", range(2))
def test_last_change_of_an_instant_has_the_largest_revision(server, key, light, seed):
    chance = random.Random(seed)
    last = None
    for turn in range(25):
        match chance.choice(["read", "write", "refused", "observed", "elsewhere", "registration", "restart"]):
            case "read":
                server.submit(key, light, f"a{turn}", "GET", LEVEL)
                last = "reported"
            case "write":
                server.submit(key, light, f"a{turn}", "PUT", LEVEL, value=str(turn))
                last = "desired"
            case "refused":
                server.patch(key, light, answer="reject")
                server.submit(key, light, f"a{turn}", "PUT", LEVEL, value=str(turn))
                server.patch(key, light, answer="normal")
                last = "desired"
            case "observed":
                observation = Observation(light, LEVEL, Content(b"%d" % turn), server.now - chance.randrange(9))
                server.services.devices.observed([observation] * chance.randint(1, 3)).result(60)
                last = "reported"
            case "elsewhere":
                server.submit(key, light, f"a{turn}", "PUT", POWER, value="1")
            case "registration":
                server.registration(key, light, chance.choice(["POST", "PUT"]))
            case "restart":
                server.restart()
        resource = server.resource(key, light, LEVEL)
        reported, desired = (resource[part].get("revision", 0) for part in ("reported", "desired"))
        assert last == ("reported" if reported > desired else "desired" if desired else None)
