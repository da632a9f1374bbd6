"""While a door is open, its light is on. Ends after some doors; started again, it goes on where it was."""

import asyncio
import sys
from pathlib import Path

from mirror_sdk import AsyncMirrorClient, DeviceRequestFailed

DOOR, SWITCH = "/3200/0/5500", "/3311/0/5850"


async def main(count, place):
    after = int(place.read_text()) if place.exists() else None
    async with AsyncMirrorClient.from_env() as client:
        doors = await client.list_devices(endpoint_type="Door")
        async with client.events(limit=count, after=after, paths=[DOOR], devices=doors) as events:
            await client.add_presubscriptions([{"endpoint_type": "Door", "resource_path": [DOOR]}], apply_now=True)
            async for event in events:
                light = event.endpoint_name.replace("door", "light")
                try:
                    await client.write_value(light, SWITCH, event.value.python)
                    print(light, "on" if event.value.python else "off", flush=True)
                except DeviceRequestFailed as error:
                    print(light, error.category, flush=True)
                place.write_text(str(events.position))


asyncio.run(main(int(sys.argv[1]), Path("position.txt")))
