"""The older connector library for Python, unmodified: its public calls, one after the other.

The library was written for Python 2, which no package index has any more. Its files run unchanged, with what they need
of Python 2: a module of a package imports its neighbors by their bare names, a thread has ``isAlive``, and the body of
a response is a ``str``.
"""

import inspect
import json
import sys
import threading
from importlib.util import find_spec

import requests
from steps import (
    DIMMER,
    HOST,
    KEY,
    REBOOT,
    TEMPERATURE,
    Receiver,
    device_ids,
    device_measures,
    finish,
    list_calls,
    simulator,
    step,
    until,
)

RULES = [{"endpoint-name": "*", "resource-path": ["/3303/*"]}]

_bytes_of = requests.Response.content.fget
requests.Response.content = property(lambda response: _bytes_of(response).decode())
requests.Response.text = requests.Response.content
requests.Response.json = lambda response: json.loads(response.content)
threading.Thread.isAlive = threading.Thread.is_alive
sys.path[:0] = find_spec("mbed_connector_api").submodule_search_locations

from mbed_connector_api import connector  # noqa: E402 - its neighbors are found from here on

list_calls(
    f"connector.{name}"
    for name, member in inspect.getmembers(connector, inspect.isfunction)
    if not name.startswith("_")
)
library = connector(KEY, webAddress=HOST)
ids = device_ids()
station, light = ids["weather-station-01"], ids["light-01"]


def done(response):
    """Return the result of a call, or its status and the error text of the library."""
    until(response.isDone)
    return (response.error.status_code, response.error.error) if response.error else response.result


def called(call, act, expected):
    step(f"connector.{call}", act, expected)


called("debug", lambda: library.debug(True, "ERROR"), None)
called("getApiVersions", lambda: done(library.getApiVersions()), ["v2", "v3"])
called("getLimits", lambda: {"transaction-quota", "endpoint-quota"} <= done(library.getLimits()).keys(), True)
called("getEndpoints", lambda: sorted(each["name"] for each in done(library.getEndpoints())), sorted(ids.values()))
called(
    "getEndpoints",
    lambda: sorted(each["name"] for each in done(library.getEndpoints("Light"))),
    sorted([light, ids["light-02"]]),
)
called("getResources", lambda: [each["uri"] for each in done(library.getResources(light))][-1], "/3311/0/5852")
called("getResources", lambda: done(library.getResources("0" * 32)), (404, "Endpoint not found."))

# Values, by long polling.
notified = []
library.setHandler("notifications", lambda message: notified.extend(message["notifications"]))
called("setHandler", lambda: library.notifications_callback == library._defaultHandler, False)
called("startLongPolling", lambda: library.startLongPolling().is_alive(), True)
called("longPoll", lambda: library.longPollThread.name, "mdc-api-longpoll")
called("getResourceValue", lambda: done(library.getResourceValue(station, TEMPERATURE)).decode(), "-0.5")
called("getResourceValue", lambda: done(library.getResourceValue(station, "/1/2/3"))[0], 400)
callbacks = []
called(
    "getResourceValue",
    lambda: done(library.getResourceValue(station, TEMPERATURE, callbacks.append)) == callbacks[-1].result,
    True,
)
called("putResourceValue", lambda: done(library.putResourceValue(light, DIMMER, "41")), b"")
called("putResourceValue", lambda: done(library.putResourceValue(light, DIMMER, 42)), b"")
called("getResourceValue", lambda: done(library.getResourceValue(light, DIMMER)).decode(), "42")
called("putResourceValue", lambda: done(library.putResourceValue(station, TEMPERATURE, 42))[0], 400)
called("postResource", lambda: done(library.postResource(light, REBOOT)), b"")

# Subscriptions.
called("putResourceSubscription", lambda: done(library.putResourceSubscription(station, TEMPERATURE)), {})
device_measures(station, "1.5")
called(
    "putResourceSubscription",
    lambda: until(lambda: [each["ep"] for each in notified if each["payload"] == "MS41"]),
    [station],
)
called("getResourceSubscription", lambda: done(library.getResourceSubscription(station, TEMPERATURE)), "")
called("getEndpointSubscriptions", lambda: done(library.getEndpointSubscriptions(station)), TEMPERATURE)
called("deleteResourceSubscription", lambda: done(library.deleteResourceSubscription(station, TEMPERATURE)), {})
called("getResourceSubscription", lambda: done(library.getResourceSubscription(station, TEMPERATURE))[0], 404)
library.putResourceSubscription(station, TEMPERATURE)
called("deleteEndpointSubscriptions", lambda: done(library.deleteEndpointSubscriptions(station)), {})
called("getEndpointSubscriptions", lambda: done(library.getEndpointSubscriptions(station))[0], 404)
called("putPreSubscription", lambda: done(library.putPreSubscription(RULES)), [])
called("getPreSubscription", lambda: done(library.getPreSubscription()), RULES)
# The library sends the request that deletes the rules.
called("deleteAllSubscriptions", lambda: done(library.deleteAllSubscriptions()), {})
called("getPreSubscription", lambda: done(library.getPreSubscription()), [])
registered = []
library.setHandler("registrations", lambda message: registered.extend(message["registrations"]))
simulator("POST", f"/devices/{station}/registration")
called("setHandler", lambda: until(lambda: [each["ep"] for each in registered])[0], station)
called("stopLongPolling", library.stopLongPolling, None)


# Values, by a callback.
def polls_are_over():
    """End the poll channel. Its thread may have been about to poll again when it was stopped."""
    is_over = not library.longPollThread.is_alive()
    requests.delete(f"{HOST}/v2/notification/pull", headers={"Authorization": f"Bearer {KEY}"}, timeout=30)
    return is_over


until(polls_are_over)
receiver = Receiver()
hooked = connector(KEY, webAddress=HOST)
called("putCallback", lambda: done(hooked.putCallback(receiver.url)), "")
called("getCallback", lambda: done(hooked.getCallback())["url"], receiver.url)


def by_callback(act):
    response = act()
    hooked.handler(receiver.take_until("async-responses"))
    return done(response)


called("handler", lambda: by_callback(lambda: hooked.getResourceValue(light, DIMMER)).decode(), "42")
called("deleteCallback", lambda: done(hooked.deleteCallback()), "")
called("getCallback", lambda: done(hooked.getCallback())[0], 404)
finish()
