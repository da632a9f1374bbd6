"""The rooms two degrees cooler, and what their temperatures do then."""

from mirror_sdk import MirrorClient

SET_POINT, TEMPERATURE = "/3308/0/5900", "/3303/0/5700"

with MirrorClient.from_env() as client:
    rooms = client.list_devices(endpoint_type="Thermostat")
    client.add_presubscriptions([{"endpoint_type": "Thermostat", "resource_path": [TEMPERATURE]}], apply_now=True)
    warm = {room.id: client.read_value(room, TEMPERATURE) for room in rooms}
    plan = client.plan([(room, SET_POINT, client.read_value(room, SET_POINT) - 2) for room in rooms])
    events = client.events(timeout=30, paths=[TEMPERATURE], devices=rooms)
    print(plan.apply()["status"].tolist(), flush=True)
    for event in events:
        if event.value.python < warm.get(event.device_id, 0) - 1:
            print(event.endpoint_name, warm.pop(event.device_id), event.value.python)
        if not warm:
            break
