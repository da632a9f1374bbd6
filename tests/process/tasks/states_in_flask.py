"""A web application: the states of devices, and what happened lately."""

import os
from collections import deque

from flask import Flask

from mirror_sdk import MirrorClient, NotFound

app = Flask(__name__)
client, lately = MirrorClient.from_env(), deque(maxlen=100)


@app.get("/devices/<name>")
def show(name):
    return client.get_device(name).to_dict()


@app.get("/lately")
def show_lately():
    return [event.to_dict() for event in lately]


@app.errorhandler(NotFound)
def tell(error):
    return {"detail": error.message}, 404


client.watch(lately.append, paths=["/3303/*"])
client.add_presubscriptions([{"resource_path": ["/3303/*"]}], apply_now=True)
app.run(port=int(os.environ["PORT"]))
