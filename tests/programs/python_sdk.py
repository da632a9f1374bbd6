"""The vendor's SDK for Python, unmodified: its public calls, one after the other."""

import inspect

import mbed_cloud
from mbed_cloud import SDK, ApiFilter, ConnectAPI, DeviceDirectoryAPI, foundation
from mbed_cloud.subscribe import channels
from steps import (
    DIMMER,
    HOST,
    KEY,
    PATIENCE_SECONDS,
    REBOOT,
    TEMPERATURE,
    ExpectedError,
    Receiver,
    device_ids,
    device_measures,
    finish,
    list_calls,
    simulator,
    step,
    until,
)

RULES = [
    {"device_id": "*", "resource_paths": ["/3303/*"]},
    {"device_type": "Light", "resource_paths": ["/3311/0/5851"]},
]
LIGHT_PATHS = ["/3/0/0", "/3/0/1", "/3/0/2", "/3/0/3", "/3/0/4", "/3311/0/5850", "/3311/0/5851", "/3311/0/5852"]


def public(owner, prefix):
    return [
        f"{prefix}.{name}"
        for name, member in inspect.getmembers(owner)
        if not name.startswith("_") and inspect.isfunction(member)
    ]


def calls():
    found = ["SDK.client.call_api"]
    for name, owner in inspect.getmembers(mbed_cloud, inspect.isclass):
        if name.endswith("API"):
            found += public(owner, name)
    for name in foundation.__all__:
        entity = getattr(foundation, name)
        if inspect.isclass(entity):
            listed = public(entity, f"foundation.{name}")
            found += [call for call in listed if not call.rsplit(".")[-1].startswith(("from_", "to_"))]
    return found + [f"subscribe.{name}" for name in ("CurrentResourceValue", "DeviceStateChanges", "ResourceValues")]


list_calls(calls())
configuration = {"api_key": KEY, "host": HOST}
connect, directory = ConnectAPI(configuration), DeviceDirectoryAPI(configuration)
ids = device_ids()
station, light, thermostat = ids["weather-station-01"], ids["light-01"], ids["thermostat-01"]


class Anything:
    """A value that is equal to every true value."""

    def __eq__(self, other):
        return bool(other)

    __hash__ = None


ANYTHING = Anything()


def connected(call, act, expected=None):
    """Run a step of the area that the SDK calls connect."""
    return step(f"ConnectAPI.{call}", act, expected)


def listed(call, act, expected=None):
    """Run a step of its device directory."""
    return step(f"DeviceDirectoryAPI.{call}", act, expected)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def dict_of(rule):
    return {name: value for name, value in rule.to_dict().items() if value is not None}


def found(**options):
    return sorted(device.name for device in directory.list_devices(**options))


# Devices.
lights = {"device_type": {"$eq": "Light"}}
connected(
    "list_connected_devices",
    lambda: sorted(device.name for device in connect.list_connected_devices(filters=lights)),
    ["light-01", "light-02"],
)
listed("list_devices", lambda: found(filters={"name": {"$eq": "light-01"}}), ["light-01"])
listed("list_devices", lambda: found(filters={"alias": {"$in": "light-01,light-02"}}), ["light-01", "light-02"])
others = {"device_type": {"$neq": "Light"}, "state": "registered"}
listed("list_devices", lambda: found(filters=others), sorted(name for name in ids if not name.startswith("light")))
listed("list_devices", lambda: directory.list_devices(include="total_count", limit=5).count(), 12)
newest = sorted(ids.values(), reverse=True)[:5]
listed("list_devices", lambda: [device.id for device in directory.list_devices(limit=5, order="desc")], newest)
listed("list_devices", lambda: found(filters={"firmware_checksum": {"$eq": "x"}}), [])
listed("get_device", lambda: directory.get_device(light).name, "light-01")
listed("get_device", lambda: directory.get_device("0" * 32))
connected("list_resources", lambda: [resource.path for resource in connect.list_resources(light)], LIGHT_PATHS)
connected("get_resource", lambda: connect.get_resource(light, DIMMER).observable, True)
connected("get_resource", lambda: connect.get_resource(light, "/1/2/3"), ExpectedError("Resource not found"))
connected("get_last_api_metadata", lambda: connect.get_last_api_metadata().method, "GET")
listed("get_last_api_metadata", lambda: directory.get_last_api_metadata().method, "GET")

# Values, by the poll channel.
connected("start_notifications", connect.start_notifications)
connected("ensure_notifications_thread", connect.ensure_notifications_thread)
connected("get_resource_value", lambda: connect.get_resource_value(station, TEMPERATURE), "-0.5")
connected("get_resource_value", lambda: connect.get_resource_value(station, "/1/2/3"), ExpectedError("no resource"))
later = connect.get_resource_value_async(station, TEMPERATURE)
connected("get_resource_value_async", lambda: later.wait(PATIENCE_SECONDS), "-0.5")
connected("set_resource_value", lambda: connect.set_resource_value(light, DIMMER, "40"))
connected("get_resource_value", lambda: connect.get_resource_value(light, DIMMER), "40")
not_allowed = ExpectedError("(400) 'METHOD_NOT_ALLOWED'")
connected("set_resource_value", lambda: connect.set_resource_value(station, TEMPERATURE, "40"), not_allowed)
later_set = connect.set_resource_value_async(light, DIMMER, "41")
connected("set_resource_value_async", lambda: later_set.wait(PATIENCE_SECONDS))
connected("execute_resource", lambda: connect.execute_resource(light, REBOOT))
connected("execute_resource", lambda: connect.execute_resource(light, DIMMER), ExpectedError("(400)"))
later_run = connect.execute_resource_async(light, REBOOT)
connected("execute_resource_async", lambda: later_run.wait(PATIENCE_SECONDS))

# Subscriptions to resources.
values = connect.add_resource_subscription(station, TEMPERATURE)
for value in ("-0.5", "1.5"):
    connected("add_resource_subscription", lambda: text(values.get(timeout=PATIENCE_SECONDS)), value)
    device_measures(station, "1.5")
notifications = []
connect.add_resource_subscription_async(
    thermostat, TEMPERATURE, lambda device, path, _: notifications.append((device, path))
)
connected("add_resource_subscription_async", lambda: until(lambda: notifications)[0], (thermostat, TEMPERATURE))
connected("get_resource_subscription", lambda: connect.get_resource_subscription(station, TEMPERATURE), True)
connected("list_device_subscriptions", lambda: list(connect.list_device_subscriptions(station)), [TEMPERATURE])
connected("delete_resource_subscription", lambda: connect.delete_resource_subscription(station, TEMPERATURE))
connected("get_resource_subscription", lambda: connect.get_resource_subscription(station, TEMPERATURE), False)
connected("delete_device_subscriptions", lambda: connect.delete_device_subscriptions(thermostat))
connected("list_device_subscriptions", lambda: connect.list_device_subscriptions(thermostat))
connect.add_resource_subscription(station, TEMPERATURE)
connected("delete_subscriptions", connect.delete_subscriptions)
connected("delete_subscriptions", lambda: connect.get_resource_subscription(station, TEMPERATURE), False)

# Presubscriptions.
connected("update_presubscriptions", lambda: connect.update_presubscriptions(RULES))
connected("list_presubscriptions", lambda: [dict_of(rule) for rule in connect.list_presubscriptions()], RULES)
connected("delete_presubscriptions", connect.delete_presubscriptions)
connected("list_presubscriptions", lambda: list(connect.list_presubscriptions()), [])

# Presubscriptions again, by the part that the SDK calls subscribe.
changes = connect.subscribe(channels.DeviceStateChanges(device_id=station))
simulator("POST", f"/devices/{station}/registration")
name = "weather-station-01"
step("subscribe.DeviceStateChanges", lambda: next(changes).block(timeout=PATIENCE_SECONDS)["alias"], name)
observed = connect.subscribe(channels.ResourceValues(device_id=thermostat, resource_path=TEMPERATURE))
device_measures(thermostat, "17.25")
step(
    "subscribe.ResourceValues",
    lambda: until(lambda: text(next(observed).block(timeout=PATIENCE_SECONDS)["payload"]) == "17.25"),
    True,
)
current = connect.subscribe(channels.CurrentResourceValue(light, DIMMER))
step("subscribe.CurrentResourceValue", lambda: text(next(current).block(timeout=PATIENCE_SECONDS)), "41")
connect.delete_presubscriptions()
connected("stop_notifications", connect.stop_notifications, True)

# Values, by a webhook.
receiver, headers = Receiver(), {"X-Token": "abc"}
hooked = ConnectAPI(configuration | {"autostart_notification_thread": False})
connected("update_webhook", lambda: hooked.update_webhook(receiver.url, headers=headers))
connected("get_webhook", lambda: (hooked.get_webhook().url, hooked.get_webhook().headers), (receiver.url, headers))


def received(act, member):
    outcome = act()
    hooked.notify_webhook_received(receiver.take_until(member))
    return outcome


def read_by_webhook():
    read = received(lambda: hooked.get_resource_value_async(light, DIMMER), "async-responses")
    return read.wait(PATIENCE_SECONDS)


def notified_by_webhook():
    return received(lambda: hooked.add_resource_subscription(station, TEMPERATURE), "notifications").get(timeout=5)


connected("notify_webhook_received", read_by_webhook, "41")
connected("notify_webhook_received", lambda: text(notified_by_webhook()), "1.5")
connected("delete_webhook", hooked.delete_webhook)
connected("get_webhook", hooked.get_webhook)

# Attributes of devices, saved filters, and events of devices.
floor = {"floor": "2"}
said = {"name": "Desk", "description": "By the window", "custom_attributes": floor}
listed("update_device", lambda: directory.update_device(light, **said).name, "Desk")
listed("get_device", lambda: directory.get_device(light).description, "By the window")
listed("get_device", lambda: directory.get_device(light).custom_attributes, floor)
listed("list_devices", lambda: found(filters={"custom_attributes": {"floor": {"$eq": "2"}}}), ["Desk"])
gateway = {"host_gateway": "gateway-01"}
listed("update_device", lambda: directory.update_device(light, **gateway), ExpectedError("host_gateway"))
query = listed("add_query", lambda: directory.add_query("lights", {"device_type": {"$eq": "Light"}}).id, ANYTHING)
listed("get_query", lambda: directory.get_query(query).filter, {"endpoint_type": {"$eq": "Light"}})
listed("list_queries", lambda: [each.name for each in directory.list_queries()], ["lights"])
listed("update_query", lambda: directory.update_query(query, name="all lights").name, "all lights")
listed("delete_query", lambda: directory.delete_query(query))
listed("list_queries", lambda: list(directory.list_queries()), [])
door = ids["door-contact-02"]
simulator("DELETE", f"/devices/{door}/registration")


def events_of_the_door():
    events = directory.list_device_events(filters={"device_id": {"$eq": door}}, order="desc", limit=2)
    return [(event.device_id == door, event.event_type) for event in events]


listed("list_device_events", events_of_the_door, [(True, "deregistration"), (True, "registration")])
event = directory.list_device_events(limit=2).first().id
listed("get_device_event", lambda: directory.get_device_event(event).device_id in ids.values(), True)

# The newer half of the same SDK.
sdk = SDK(api_key=KEY, host=HOST)
of_lights = ApiFilter()
of_lights.add_filter("endpoint_type", "eq", "Light")
step(
    "foundation.Device.list",
    lambda: sorted(device.endpoint_name for device in sdk.foundation.device().list(filter=of_lights)),
    ["light-01", "light-02"],
)
step("foundation.Device.read", lambda: sdk.foundation.device(id=light).read().endpoint_name, "light-01")


def renamed():
    device = sdk.foundation.device(id=light).read()
    device.name = "Shelf"
    device.update()
    return sdk.foundation.device(id=light).read().name


step("foundation.Device.update", renamed, "Shelf")
event = step("foundation.DeviceEvents.list", lambda: sdk.foundation.device_events().list().first().id, ANYTHING)
step(
    "foundation.DeviceEvents.read",
    lambda: sdk.foundation.device_events(id=event).read().device_id in ids.values(),
    True,
)
echo = {"method": "get", "path": "/v3/devices/{id}/echo", "path_params": {"id": light}}
step("SDK.client.call_api", lambda: sdk.client.call_api(**echo).json()["endpoint_name"], "light-01")
finish()
