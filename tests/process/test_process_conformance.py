"""The conformance tests against servers of this project that run in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from process_server import ServerProcess

from mirror_server.service.keys import DEFAULT_SCOPES

pytestmark = pytest.mark.process

PLUGIN = ["-p", "mirror_sdk.testing.plugin", "-p", "no:cacheprovider"]


Judge = Callable[..., str]


@pytest.fixture
def judge(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Run the conformance tests in an empty folder; return their output for a conforming server."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ["API_HOST", "API_KEY", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"]:
        monkeypatch.delenv(name, raising=False)

    def judge(*arguments: str, **variables: str) -> str:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        # The assertions of these modules are already rewritten, or not at all.
        warnings = ["-W", "error", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        said = pytester.runpytest_inprocess(*warnings, "-q", "-rs", *PLUGIN, *arguments)
        assert said.ret == 0, said.stdout.str() + said.stderr.str()
        assert " passed" in said.stdout.str()
        return said.stdout.str()

    return judge


@pytest.fixture(scope="module")
def real_time_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with simulated devices and a real-time clock."""
    server = ServerProcess(tmp_path_factory.mktemp("real-time"), "--simulate", "2")
    try:
        yield server.start()
    finally:
        server.close()


def test_a_server_on_real_time_passes_all_but_those_that_need_time(real_time_server, judge):
    variables = {"API_HOST": real_time_server.url, "API_KEY": real_time_server.key()}
    said = judge("--pyargs", "mirror_sdk.testing.conformance", **variables)
    assert "the clock of the server runs by itself" in said


def test_a_key_without_admin_reads_the_device_that_is_named(real_time_server, judge):
    application = real_time_server.application()
    device_id = application.add_device("named", {"path": "/3303/0/5700", "value": "21", "observable": True})
    key = real_time_server.key(*DEFAULT_SCOPES)
    said = judge(f"--mirror-url={real_time_server.url}", f"--mirror-key={key}", f"--mirror-device={device_id}")
    assert "the key lacks the scope admin" in said
    assert "did not respond" not in said
    assert application.json("GET", f"/v3/devices/{device_id}/echo")["last_reported_at"]


def test_a_wrong_key_ends_the_run_at_once(real_time_server, judge):
    with pytest.raises(AssertionError, match="rejects the key"):
        judge(f"--mirror-url={real_time_server.url}", "--mirror-key=ak_wrong")
