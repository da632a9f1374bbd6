"""What a demo server says when it is there."""

from contextlib import closing

import pytest

from mirror_server.extensions.simulator import demo
from mirror_server.hooks import extends, installed, read_settings
from mirror_server.server import Services


class RealDevices:
    @extends
    def devices_come_to(self):
        return "Real devices: coap://127.0.0.1:5683"


@pytest.mark.parametrize("kept_seconds", [None, 7 * 86_400.0])
def test_it_says_where_devices_and_clients_come_in_and_what_a_history_takes_where_none_is_kept(
    kept_seconds, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(demo, "_demo_key", lambda *_: ("ak_1", None, None))
    settings = read_settings(database_url=f"sqlite:///{tmp_path}/demo.db", keep_history_seconds=kept_seconds)
    with closing(Services(settings)) as services:
        services.extensions.add(RealDevices())
        demo._announce_demo(None, None, "http://127.0.0.1:8080", services)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "# Real devices: coap://127.0.0.1:5683"
    assert told[1:3] == ["export API_HOST=http://127.0.0.1:8080", "export API_KEY=ak_1"]
    page = ["# In a browser: http://127.0.0.1:8080/#key=ak_1"] if "page" in installed() else []
    notes = [] if kept_seconds else ["# No history is kept: that takes pip install 'device-state-mirror[history]'"]
    assert told[3:] == [*page, *notes]
