"""A program written for the public API, with the vendor's own SDK; it knows nothing of this project.

Each step prints its name and outcome as a line of JSON.
"""

import json
import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mbed_cloud import ConnectAPI, DeviceDirectoryAPI

TEMPERATURE = "/3303/0/5700"
DIMMER = "/3311/0/5851"
RULES = [{"device_id": "*", "resource_paths": ["/3303/*"]}]

configuration = {"api_key": os.environ["API_KEY"], "host": os.environ["API_HOST"]}
connect = ConnectAPI(configuration)
directory = DeviceDirectoryAPI(configuration)
calls = queue.Queue()


class Callback(BaseHTTPRequestHandler):
    def do_PUT(self):
        calls.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def step(name, act):
    try:
        outcome = act()
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    print(json.dumps([name, outcome], default=str), flush=True)
    return outcome


def by_name(devices):
    return {device.name: device.id for device in devices}


def subscribe(device_id):
    values = connect.add_resource_subscription(device_id, TEMPERATURE)
    first = values.get(timeout=60)
    return first.decode() if isinstance(first, bytes) else first


def presubscriptions():
    return [rule if isinstance(rule, dict) else rule.to_dict() for rule in connect.list_presubscriptions()]


def webhook(station):
    connect.stop_notifications()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Callback)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/callback"
    connect.update_webhook(url, headers={"X-Token": "abc"})
    probe = calls.get(timeout=60)
    connect.add_resource_subscription_async(station, TEMPERATURE, lambda *_: None)
    message = calls.get(timeout=60)
    registered = connect.get_webhook()
    connect.delete_webhook()
    return [probe, sorted(message), registered.url == url, registered.headers, connect.get_webhook()]


ids = by_name(connect.list_connected_devices())
station, light = ids["weather-station-01"], ids["light-01"]
step("connected devices", lambda: sorted(ids))
step("filtered devices", lambda: sorted(by_name(directory.list_devices(filters={"name": {"$eq": "light-01"}}))))
step("all devices, counted", lambda: directory.list_devices(include="total_count", limit=5).count())
step("one device", lambda: directory.get_device(light).name)
step("resources", lambda: [resource.path for resource in connect.list_resources(light)])
step("start long polling", connect.start_notifications)
step("read", lambda: connect.get_resource_value(station, TEMPERATURE))
step("write", lambda: connect.set_resource_value(light, DIMMER, "40"))
step("read what was written", lambda: connect.get_resource_value(light, DIMMER))
step("rejected write", lambda: connect.set_resource_value(station, TEMPERATURE, "40"))
step("execute", lambda: connect.execute_resource(light, "/3/0/4"))
step("subscribe and event", lambda: subscribe(station))
step("is subscribed", lambda: connect.get_resource_subscription(station, TEMPERATURE))
step("list subscriptions", lambda: connect.list_device_subscriptions(station))
step("unsubscribe", lambda: connect.delete_resource_subscription(station, TEMPERATURE))
step("is subscribed no more", lambda: connect.get_resource_subscription(station, TEMPERATURE))
step("put presubscriptions", lambda: connect.update_presubscriptions(RULES))
step("get presubscriptions", lambda: [rule["resource_paths"] for rule in presubscriptions()])
step("delete presubscriptions", connect.delete_presubscriptions)
step("stop long polling", connect.stop_notifications)
step("webhook", lambda: webhook(station))
os._exit(0)
