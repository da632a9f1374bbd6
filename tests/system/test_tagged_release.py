"""The same release cannot be made twice."""

import subprocess

import pytest
from release import main

IDENTITY = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.com")


def test_an_existing_tag_is_rejected_before_anything_is_built(tmp_path, monkeypatch):
    for command in ("init -q", "commit -q --allow-empty -m first", "tag v0.1.0"):
        subprocess.run(["git", *IDENTITY, *command.split()], cwd=tmp_path, check=True)
    monkeypatch.setattr("release.ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["release.py", "0.1.0"])
    with pytest.raises(SystemExit, match=r"^the tag v0\.1\.0 exists"):
        main()
