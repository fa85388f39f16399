"""Two server processes over one PostgreSQL: either takes requests, and one goes on with what the other had."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.postgres import a_cluster

from .house import House, until

WAITS = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)\nprint('went on')\n"


@pytest.fixture
def houses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[House]]:
    with a_cluster() as cluster, cluster.database() as name:
        monkeypatch.setenv("DRUMBEAT_DATABASE", cluster.url(name))
        monkeypatch.setenv("DRUMBEAT_SHARED", str(tmp_path / "shared"))
        there = [House(tmp_path / "one"), House(tmp_path / "two")]
        try:
            yield there
        finally:
            for house in there:
                house.close()


@pytest.mark.feature("F5", "F10")
def test_a_job_of_a_server_that_was_killed_ends_at_the_other(houses: list[House], tmp_path: Path):
    one, two = houses
    for house in houses:
        until(lambda house=house: house.run("list").returncode == 0, what="the start of a server")
    go = tmp_path / "go"
    one.script(WAITS)
    file = one.job_file(command=f"{sys.executable} t.py {go}", code=".")
    ran = one.run("run", file, "--detach")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    name = ran.stdout.split()[0]
    until(lambda: two.client.get(name).state == "running", what="the start of the ranks, as the other sees it")
    one.server().kill()
    go.touch()
    until(lambda: two.client.get(name).state == "completed", what="the end of the job at the other server")
    assert two.logs(name) == {0: "went on\n"}
