"""The plugin does not affect projects that do not use it, and reports missing packages to those that do."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.serving import make_server

ROOT = Path(__file__).parents[2]
OURS = {"mirror_sdk", "mirror_sdk.testing", "mirror_sdk.testing.plugin"}

# A project with fixtures of all short names, of other types and scopes, that also uses ours.
OWN_FIXTURES = """
import pytest

@pytest.fixture(scope="session")
def mirror():
    return "their mirror"

@pytest.fixture(scope="module")
def clock(mirror):
    return [mirror, "their clock"]

@pytest.fixture(autouse=True)
def fleet(clock):
    yield len(clock)

@pytest.fixture(params=["flat", "round"])
def faults(request):
    return request.param
"""
OWN_AND_OURS = """
import pytest

def test_theirs(mirror, clock, fleet, faults):
    assert (mirror, clock, fleet) == ("their mirror", ["their mirror", "their clock"], 2)
    assert faults in {"flat", "round"}

@pytest.mark.parametrize("number", [1, 2])
def test_ours(mirror_in_process, mirror_clock, mirror_fleet, mirror_faults, clock, number):
    (light,) = (device for device in mirror_fleet(6, seed=1) if device.endpoint_type == "Light")
    assert mirror_clock is mirror_in_process.clock and mirror_faults is mirror_in_process.faults
    with mirror_faults.silence(light):
        request = mirror_in_process.client.requests.begin_write(light.id, "/3311/0/5850", True)
        mirror_clock.advance("10min")
        assert request.exception().category == "TIMEOUT"
    assert clock == ["their mirror", "their clock"]
"""


def test_a_project_that_does_not_use_the_kit_notices_nothing(pytester, run_project, monkeypatch):
    monkeypatch.setenv("API_HOST", "http://127.0.0.1:9")
    monkeypatch.setenv("API_KEY", "key")
    pytester.makeconftest(
        """
        import sys
        import pytest

        @pytest.fixture
        def clock():
            return "theirs"

        def pytest_unconfigure(config):
            print("LOADED", *(name for name in sys.modules if name.startswith("mirror")))
        """
    )
    pytester.makepyfile("def test_own_fixture(clock):\n    assert clock == 'theirs'")
    result = run_project("-q")
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if "LOADED" in line]
    assert set(line.partition("LOADED")[2].split()) == OURS


def test_the_plugin_loads_nothing_that_is_not_of_python():
    program = (
        "import pytest, sys; before = {*sys.modules}; import mirror_sdk.testing.plugin; print(*{*sys.modules} - before)"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert loaded >= OURS
    assert {name.partition(".")[0] for name in loaded - OURS} <= sys.stdlib_module_names


def test_a_project_with_fixtures_of_the_short_names_can_use_ours_too(pytester, run_project):
    pytester.makeconftest(OWN_FIXTURES)
    pytester.makepyfile(OWN_AND_OURS)
    run_project("-q").assert_outcomes(passed=4)


# Modules that this process has loaded stay unchanged when the inner run ends.
@pytest.mark.usefixtures("mirror")
def test_all_fixtures_use_an_overridden_mirror(pytester, run_here):
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def mirror(mirror):
            mirror.simulator.add_device("second", [{"path": "/3303/0/5700", "value": "21"}])
            return mirror

        def test_one(mirror, mirror_in_process, clock, mirror_clock, fleet, faults, mirror_faults):
            (device,) = mirror_in_process.client.devices.list()
            assert device.endpoint_name == "second"
            assert mirror is mirror_in_process
            assert clock is mirror_clock is mirror.clock
            assert faults is mirror_faults is mirror.faults
            assert len(fleet(2)) == 2
        """
    )
    run_here("-q").assert_outcomes(passed=1)


def test_without_the_server_a_fixture_names_the_package_to_install(pytester, run_project):
    pytester.makeconftest("import sys\nsys.modules['flask'] = None")
    pytester.makepyfile("def test_one(mirror):\n    pass")
    result = run_project("-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ['*ImportError: mirror_sdk.testing runs the server: pip install "device-state-mirror?server?"']
    )


def test_the_conformance_tests_say_which_server_is_missing(run_here):
    for arguments, words in (
        (["--pyargs", "mirror_sdk.testing.conformance"], ["API_HOST", "--mirror-url"]),
        (["--mirror-url=http://127.0.0.1:9", "--mirror-key=key"], ["http://127.0.0.1:9"]),
    ):
        result = run_here("-q", *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert all(word in result.stdout.str() + result.stderr.str() for word in words)


RECORDED = """
import pytest

@pytest.mark.mirror_cassette("cassettes/fleet.zip")
def test_the_fleet(mirror_cassette, mirror_cassette_file):
    assert [device.endpoint_name for device in mirror_cassette.devices.list()] == ["light-1"]
    assert mirror_cassette_file.name == "fleet.zip"
"""


@pytest.fixture
def served(mirror) -> Iterator[str]:
    """Yield the URL of a real server with one light, to which API_HOST and API_KEY of a project are set."""
    mirror.simulator.add_device("light-1", [{"path": "/3311/0/5850", "value": "0"}])
    server = make_server("127.0.0.1", 0, mirror._server.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_test_with_a_cassette_contacts_the_service_once(pytester, run_here, mirror, served, monkeypatch):
    pytester.makepyfile(RECORDED)
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers --strict-config")
    run_here("-q", "--mirror-cassettes=replay").assert_outcomes(errors=1)
    monkeypatch.setenv("API_HOST", served)
    monkeypatch.setenv("API_KEY", mirror.new_key())
    run_here("-q", "--mirror-cassettes=none").assert_outcomes(passed=1)
    assert not (pytester.path / "cassettes").exists()
    run_here("-q").assert_outcomes(passed=1)
    monkeypatch.setenv("API_HOST", "http://127.0.0.1:9")
    monkeypatch.delenv("API_KEY")
    run_here("-q").assert_outcomes(passed=1)
    run_here("-q", "--mirror-cassettes=replay").assert_outcomes(passed=1)
    run_here("-q", "--mirror-cassettes=record").assert_outcomes(errors=1)


def test_a_test_that_fails_records_nothing(pytester, run_here, mirror, served, monkeypatch):
    pytester.makepyfile(RECORDED.replace("light-1", "light-2"))
    monkeypatch.setenv("API_HOST", served)
    monkeypatch.setenv("API_KEY", mirror.new_key())
    run_here("-q").assert_outcomes(failed=1)
    assert list((pytester.path).glob("**/fleet.zip")) == []


def test_a_test_without_the_marker_fails_with_the_cure(pytester, run_here):
    pytester.makepyfile("def test_the_fleet(mirror_cassette):\n    pass")
    result = run_here("-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.mirror_cassette*"])
