"""All lights to a low level for the night: plan, canary, repair of what failed, and the way back."""

import sys

from mirror_sdk import MirrorClient

DIMMER = "/3311/0/5851"

with MirrorClient.from_env() as client:
    if sys.argv[1] == "night":
        lights = client.list_devices(endpoint_type="NightLight", state="registered")
        plan = client.plan([(light, DIMMER, 10) for light in lights], read_first=True)
    else:
        plan = client.load_plan(sys.argv[2])
        result = plan.apply()
    if sys.argv[1] == "repair":
        plan = client.plan([(light, DIMMER, 10) for light in result[result["status"] == "failure"]["device_id"]])
    elif sys.argv[1] == "back":
        plan = plan.undo()
    print(plan)
    plan.apply(canary=1)
    print(plan)
    plan.save(f"{sys.argv[1]}.json")
