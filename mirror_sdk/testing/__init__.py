"""For the tests of programs that use a device state mirror: fixtures for pytest, and faults to test against.

With the package installed (``pip install "device-state-mirror[server]" pytest``) a test just asks for the fixtures::

    def test_a_light_that_is_slow_to_answer(mirror, clock, fleet, faults):
        light = next(device for device in fleet(6, seed=1) if device.endpoint_type == "Light")
        with faults.silence(light):
            request = mirror.client.begin_write(light.id, "/3311/0/5850", True)
            clock.advance("10min")
            assert request.exception().category == "TIMEOUT"
        faults.drop("answer", path="/v2/device-requests/*")
        mirror.client.write_value(light.id, "/3311/0/5850", True)
        faults.restart_server()
        assert mirror.client.get_device(light.id)["/3311/0/5850"].desired.status == 1

``mirror`` is a :class:`Mirror`: the real server on a database of its own in the process of the test, with clients that
reach it without a network. Nothing in it is mocked, nothing in it sleeps. ``clock`` is its time, which stands still
until it is advanced (:class:`Clock`); ``fleet(n, seed)`` adds simulated devices (:class:`FleetDevice`); ``faults``
makes things go wrong (:class:`Faults`): ``drop``, ``delay``, ``duplicate``, ``reorder``, ``reject``, ``silence`` and
``restart_server``. Faults of notifications act on long polling; a webhook is called over real HTTP, past them.

The package also has tests of the interface itself, which any server can be held against, best with a key of their own::

    pytest --mirror-url=http://127.0.0.1:8080 --mirror-key=ak_...

(or ``pytest --pyargs mirror_sdk.testing.conformance`` with ``API_HOST`` and ``API_KEY`` set). What a server lacks of
the extensions is skipped with the reason; ``-rs`` shows it.
"""

from mirror_sdk.testing.clock import Clock
from mirror_sdk.testing.device import FleetDevice
from mirror_sdk.testing.fault import Fault
from mirror_sdk.testing.faults import Faults
from mirror_sdk.testing.mirror import Mirror

__all__ = ["Clock", "Fault", "Faults", "FleetDevice", "Mirror"]
