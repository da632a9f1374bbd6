"""The output of a demo server when it is ready."""

from contextlib import closing

from mirror_server.extensions.simulator import demo
from mirror_server.hooks import extends, read_settings
from mirror_server.server import Services


class Others:
    @extends
    def device_address(self):
        return "Real devices: coap://127.0.0.1:5683"

    @extends
    def announcements(self, url, key):
        return [f"Look at {url} with {key}"]


def test_demo_announces_addresses_and_lines_of_extensions(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "_demo_key", lambda *_: ("ak_1", None, None))
    with closing(Services(read_settings(database_url=f"sqlite:///{tmp_path}/demo.db"))) as services:
        services.extensions.add(Others())
        demo._announce_demo(None, None, "http://127.0.0.1:8080", services)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# Real devices: coap://127.0.0.1:5683"
    assert lines[1:3] == ["export API_HOST=http://127.0.0.1:8080", "export API_KEY=ak_1"]
    assert "# Look at http://127.0.0.1:8080 with ak_1" in lines[3:]
