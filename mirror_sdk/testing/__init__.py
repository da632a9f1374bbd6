"""Fixtures for pytest, and faults, for tests of programs that use a device state mirror.

With the package installed (``pip install "device-state-mirror[server]" pytest``) a test just uses the fixtures::

    def test_a_light_that_is_slow_to_answer(mirror, clock, fleet, faults):
        light = next(device for device in fleet(6, seed=1) if device.endpoint_type == "Light")
        with faults.silence(light):
            request = mirror.client.requests.begin_write(light.id, "/3311/0/5850", True)
            clock.advance("10min")
            assert request.exception().category == "TIMEOUT"
        faults.drop("response", path="/v2/device-requests/*")
        mirror.client.write_value(light.id, "/3311/0/5850", True)
        faults.restart_server()
        assert mirror.client.get_device(light.id)["/3311/0/5850"].desired.status == 1

``mirror`` is a :class:`Mirror`: the real server on a database of its own in the process of the test, with clients that
reach it without a network. Nothing in it is mocked, nothing in it sleeps. ``clock`` is its time, which stands still
until it is advanced (:class:`Clock`). ``fleet(n, seed)`` adds simulated devices (:class:`FleetDevice`). ``faults``
(:class:`Faults`) has ``drop``, ``delay``, ``duplicate``, ``reorder``, ``reject``, ``silence`` and ``restart_server``.
Faults of notifications act on long polling, not on a webhook, which is called over real HTTP.

These names are short for ``mirror_in_process``, ``mirror_clock``, ``mirror_fleet`` and ``mirror_faults``. A project
that has a ``mirror``, ``clock``, ``fleet`` or ``faults`` fixture keeps it, and uses these by their long names, which
depend on no short one. Nothing is loaded before a fixture is used. To have all of them work on another mirror, override
``mirror_in_process``.

With a cassette of a service (:mod:`mirror_sdk.cassette`), a test needs no service::

    @pytest.mark.mirror_cassette("cassettes/fleet.zip")
    def test_the_report(mirror_cassette):
        assert make_report(mirror_cassette).rows == 12

The path is relative to the file of the test. ``mirror_cassette`` is a client. The first time, it connects to
``API_HOST`` with ``API_KEY`` and records the responses, unless the test fails; after that it replays them.
``--mirror-cassettes=record`` records again, ``replay`` never connects to a service, ``none`` never uses a cassette.
``mirror_cassette_file`` is the path alone, for ``AsyncMirrorClient.from_cassette``.

The package also has tests of the interface itself for any server. Give them a key of their own::

    pytest --mirror-url=http://127.0.0.1:8080 --mirror-key=ak_...

(or ``pytest --pyargs mirror_sdk.testing.conformance`` with ``API_HOST`` and ``API_KEY`` set). Tests of extensions that
a server does not have are skipped with the reason; ``-rs`` shows it.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_sdk.testing.clock import Clock
    from mirror_sdk.testing.device import FleetDevice
    from mirror_sdk.testing.fault import Fault
    from mirror_sdk.testing.faults import Faults
    from mirror_sdk.testing.mirror import Mirror

__all__ = ["Clock", "Fault", "Faults", "FleetDevice", "Mirror"]

# Loaded when they are first used: pytest loads this package with the plugin in it, in every project.
_MODULES = {"Clock": "clock", "Fault": "fault", "Faults": "faults", "FleetDevice": "device", "Mirror": "mirror"}

if not TYPE_CHECKING:  # which would believe that there are names of any spelling

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
