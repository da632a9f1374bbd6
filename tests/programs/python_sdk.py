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
    Receiver,
    Refused,
    bench,
    device_ids,
    device_measures,
    finish,
    step,
    tell_calls,
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
            skipped = {
                "from_api",
                "from_dict",
                "from_json",
                "from_literal",
                "to_api",
                "to_dict",
                "to_json",
                "to_literal",
            }
            found += [call for call in public(entity, f"foundation.{name}") if call.rsplit(".")[-1] not in skipped]
    return found + [f"subscribe.{name}" for name in ("CurrentResourceValue", "DeviceStateChanges", "ResourceValues")]


tell_calls(calls())
configuration = {"api_key": KEY, "host": HOST}
connect, directory = ConnectAPI(configuration), DeviceDirectoryAPI(configuration)
ids = device_ids()
station, light, thermostat = ids["weather-station-01"], ids["light-01"], ids["thermostat-01"]


class Anything:
    """Equal to whatever is true."""

    def __eq__(self, other):
        return bool(other)

    __hash__ = None


ANYTHING = Anything()


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def dict_of(rule):
    return {name: value for name, value in rule.to_dict().items() if value is not None}


def added(name):
    return directory.add_query(name, {"device_type": {"$eq": "Light"}})


def names(devices):
    return sorted(device.name for device in devices)


# Devices.
step("ConnectAPI.list_connected_devices", lambda: names(connect.list_connected_devices()), sorted(ids))
step(
    "ConnectAPI.list_connected_devices",
    lambda: names(connect.list_connected_devices(filters={"device_type": {"$eq": "Light"}})),
    ["light-01", "light-02"],
)
step(
    "DeviceDirectoryAPI.list_devices",
    lambda: names(directory.list_devices(filters={"name": {"$eq": "light-01"}})),
    ["light-01"],
)
step(
    "DeviceDirectoryAPI.list_devices",
    lambda: names(directory.list_devices(filters={"alias": {"$in": "light-01,light-02"}})),
    ["light-01", "light-02"],
)
step(
    "DeviceDirectoryAPI.list_devices",
    lambda: names(directory.list_devices(filters={"device_type": {"$neq": "Light"}, "state": "registered"})),
    sorted(name for name in ids if not name.startswith("light")),
)
step("DeviceDirectoryAPI.list_devices", lambda: directory.list_devices(include="total_count", limit=5).count(), 12)
step(
    "DeviceDirectoryAPI.list_devices",
    lambda: [device.id for device in directory.list_devices(limit=5, order="desc")],
    sorted(ids.values(), reverse=True)[:5],
)
step(
    "DeviceDirectoryAPI.list_devices",
    lambda: directory.list_devices(filters={"firmware_checksum": {"$eq": "x"}}).first(),
    None,
)
step("DeviceDirectoryAPI.get_device", lambda: directory.get_device(light).name, "light-01")
step("DeviceDirectoryAPI.get_device", lambda: directory.get_device("0" * 32), None)
step("ConnectAPI.list_resources", lambda: [resource.path for resource in connect.list_resources(light)], LIGHT_PATHS)
step("ConnectAPI.get_resource", lambda: connect.get_resource(light, DIMMER).observable, True)
step("ConnectAPI.get_resource", lambda: connect.get_resource(light, "/1/2/3"), Refused("Resource not found"))
step("ConnectAPI.get_last_api_metadata", lambda: connect.get_last_api_metadata().method, "GET")
step("DeviceDirectoryAPI.get_last_api_metadata", lambda: directory.get_last_api_metadata().method, "GET")

# Values, by the poll channel.
step("ConnectAPI.start_notifications", connect.start_notifications, None)
step("ConnectAPI.ensure_notifications_thread", connect.ensure_notifications_thread, None)
step("ConnectAPI.get_resource_value", lambda: connect.get_resource_value(station, TEMPERATURE), "-0.5")
step("ConnectAPI.get_resource_value", lambda: connect.get_resource_value(station, "/1/2/3"), Refused("no resource"))
step(
    "ConnectAPI.get_resource_value_async",
    lambda: connect.get_resource_value_async(station, TEMPERATURE).wait(PATIENCE_SECONDS),
    "-0.5",
)
step("ConnectAPI.set_resource_value", lambda: connect.set_resource_value(light, DIMMER, "40"), None)
step("ConnectAPI.get_resource_value", lambda: connect.get_resource_value(light, DIMMER), "40")
step(
    "ConnectAPI.set_resource_value",
    lambda: connect.set_resource_value(station, TEMPERATURE, "40"),
    Refused("(400) 'METHOD_NOT_ALLOWED'"),
)
step(
    "ConnectAPI.set_resource_value_async",
    lambda: connect.set_resource_value_async(light, DIMMER, "41").wait(PATIENCE_SECONDS),
    None,
)
step("ConnectAPI.execute_resource", lambda: connect.execute_resource(light, REBOOT), None)
step(
    "ConnectAPI.execute_resource_async",
    lambda: connect.execute_resource_async(light, REBOOT).wait(PATIENCE_SECONDS),
    None,
)
step("ConnectAPI.execute_resource", lambda: connect.execute_resource(light, DIMMER), Refused("(400)"))

# Subscriptions to resources.
values = connect.add_resource_subscription(station, TEMPERATURE)
step("ConnectAPI.add_resource_subscription", lambda: text(values.get(timeout=PATIENCE_SECONDS)), "-0.5")
device_measures(station, "1.5")
step("ConnectAPI.add_resource_subscription", lambda: text(values.get(timeout=PATIENCE_SECONDS)), "1.5")
told = []
step(
    "ConnectAPI.add_resource_subscription_async",
    lambda: connect.add_resource_subscription_async(
        thermostat, TEMPERATURE, lambda device, path, value: told.append((device, path, text(value)))
    ),
    None,
)
step("ConnectAPI.add_resource_subscription_async", lambda: until(lambda: told)[0][:2], (thermostat, TEMPERATURE))
step("ConnectAPI.get_resource_subscription", lambda: connect.get_resource_subscription(station, TEMPERATURE), True)
step("ConnectAPI.list_device_subscriptions", lambda: list(connect.list_device_subscriptions(station)), [TEMPERATURE])
step(
    "ConnectAPI.delete_resource_subscription", lambda: connect.delete_resource_subscription(station, TEMPERATURE), None
)
step("ConnectAPI.get_resource_subscription", lambda: connect.get_resource_subscription(station, TEMPERATURE), False)
step("ConnectAPI.delete_device_subscriptions", lambda: connect.delete_device_subscriptions(thermostat), None)
step("ConnectAPI.list_device_subscriptions", lambda: connect.list_device_subscriptions(thermostat), None)
connect.add_resource_subscription(station, TEMPERATURE)
step("ConnectAPI.delete_subscriptions", connect.delete_subscriptions, None)
step("ConnectAPI.delete_subscriptions", lambda: connect.get_resource_subscription(station, TEMPERATURE), False)

# Presubscriptions.
step("ConnectAPI.update_presubscriptions", lambda: connect.update_presubscriptions(RULES), None)
step("ConnectAPI.list_presubscriptions", lambda: [dict_of(rule) for rule in connect.list_presubscriptions()], RULES)
step("ConnectAPI.delete_presubscriptions", connect.delete_presubscriptions, None)
step("ConnectAPI.list_presubscriptions", lambda: list(connect.list_presubscriptions()), [])

# What it calls subscribe.
changes = connect.subscribe(channels.DeviceStateChanges(device_id=station))
bench("POST", f"/devices/{station}/registration")
step(
    "subscribe.DeviceStateChanges", lambda: next(changes).block(timeout=PATIENCE_SECONDS)["alias"], "weather-station-01"
)
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
step("ConnectAPI.stop_notifications", connect.stop_notifications, True)

# Values, by a webhook.
receiver = Receiver()
hooked = ConnectAPI(configuration | {"autostart_notification_thread": False})
step("ConnectAPI.update_webhook", lambda: hooked.update_webhook(receiver.url, headers={"X-Token": "abc"}), None)
step(
    "ConnectAPI.get_webhook",
    lambda: (hooked.get_webhook().url, hooked.get_webhook().headers),
    (receiver.url, {"X-Token": "abc"}),
)


def received(act, member):
    outcome = act()
    hooked.notify_webhook_received(receiver.take_until(member))
    return outcome


step(
    "ConnectAPI.notify_webhook_received",
    lambda: received(lambda: hooked.get_resource_value_async(light, DIMMER), "async-responses").wait(PATIENCE_SECONDS),
    "41",
)
step(
    "ConnectAPI.notify_webhook_received",
    lambda: text(
        received(lambda: hooked.add_resource_subscription(station, TEMPERATURE), "notifications").get(timeout=5)
    ),
    "1.5",
)
step("ConnectAPI.delete_webhook", hooked.delete_webhook, None)
step("ConnectAPI.get_webhook", hooked.get_webhook, None)
step("ConnectAPI.delete_webhook", hooked.delete_webhook, None)

# What is said of devices, saved filters, and what happened to devices.
step(
    "DeviceDirectoryAPI.update_device",
    lambda: (
        directory.update_device(light, name="Desk", description="By the window", custom_attributes={"floor": "2"}).name
    ),
    "Desk",
)
step("DeviceDirectoryAPI.get_device", lambda: directory.get_device(light).description, "By the window")
step("DeviceDirectoryAPI.get_device", lambda: directory.get_device(light).custom_attributes, {"floor": "2"})
step(
    "DeviceDirectoryAPI.list_devices",
    lambda: names(directory.list_devices(filters={"custom_attributes": {"floor": {"$eq": "2"}}})),
    ["Desk"],
)
step(
    "DeviceDirectoryAPI.update_device",
    lambda: directory.update_device(light, host_gateway="gateway-01"),
    Refused("host_gateway"),
)
query = step("DeviceDirectoryAPI.add_query", lambda: added("lights").id, ANYTHING)
step("DeviceDirectoryAPI.get_query", lambda: directory.get_query(query).filter, {"endpoint_type": {"$eq": "Light"}})
step("DeviceDirectoryAPI.list_queries", lambda: [each.name for each in directory.list_queries()], ["lights"])
step("DeviceDirectoryAPI.update_query", lambda: directory.update_query(query, name="all lights").name, "all lights")
step("DeviceDirectoryAPI.delete_query", lambda: directory.delete_query(query), None)
step("DeviceDirectoryAPI.list_queries", lambda: list(directory.list_queries()), [])
bench("DELETE", f"/devices/{ids['door-contact-02']}/registration")
events = step(
    "DeviceDirectoryAPI.list_device_events",
    lambda: [
        (event.device_id == ids["door-contact-02"], event.event_type)
        for event in directory.list_device_events(
            filters={"device_id": {"$eq": ids["door-contact-02"]}}, order="desc", limit=2
        )
    ],
    [(True, "deregistration"), (True, "registration")],
)
step(
    "DeviceDirectoryAPI.get_device_event",
    lambda: directory.get_device_event(directory.list_device_events(limit=2).first().id).device_id in ids.values(),
    True,
)

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
step("foundation.DeviceEvents.list", lambda: sdk.foundation.device_events().list(max_results=2).first().id, ANYTHING)
step(
    "foundation.DeviceEvents.read",
    lambda: (
        sdk.foundation.device_events(id=sdk.foundation.device_events().list().first().id).read().device_id
        in ids.values()
    ),
    True,
)
step(
    "SDK.client.call_api",
    lambda: sdk.client.call_api(method="get", path="/v3/devices/{id}/echo", path_params={"id": light}).json()[
        "endpoint_name"
    ],
    "light-01",
)
finish()
