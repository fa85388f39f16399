"""Two servers over one PostgreSQL, each in a network of its own: the active one fails, and the other takes over."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.contract.postgres import a_cluster

from .guard import guarded
from .house import DRUMBEAT, House, until

pytestmark = [pytest.mark.feature("F11"), pytest.mark.timeout(400)]

ONE, TWO, HUB = "10.213.77.2", "10.213.77.3", "10.213.77.1"
PORT = 8470
ONCE = """
import os, pathlib, sys, time
with open(f"{sys.argv[1]}/ran", "a") as file:
    file.write(os.environ["DRUMBEAT_JOB"] + "\\n")
while not pathlib.Path(sys.argv[1], "go").exists():
    time.sleep(0.05)
print("went on")
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def networks() -> Iterator[dict[str, str]]:
    """The namespaces of two servers by address, linked to one in which the test itself runs meanwhile."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("needs root and ip (Debian: apt-get install iproute2)")
    mark = f"drumbeat-{os.getpid()}"
    names = {address: f"{mark}-{address.rpartition('.')[2]}" for address in (HUB, ONE, TWO)}
    libc, outside = ctypes.CDLL(None, use_errno=True), os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        for address, name in names.items():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            if address == HUB:
                ip("-n", name, "link", "add", "hub", "type", "bridge")
                ip("-n", name, "addr", "add", f"{HUB}/24", "dev", "hub")
                ip("-n", name, "link", "set", "hub", "up")
                continue
            link = f"to{address.rpartition('.')[2]}"
            ip("-n", name, "link", "add", "eth", "type", "veth", "peer", "name", link, "netns", names[HUB])
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth")
            ip("-n", name, "link", "set", "eth", "up")
            ip("-n", names[HUB], "link", "set", link, "master", "hub", "up")
        with Path("/run/netns", names[HUB]).open() as inside:
            assert libc.setns(inside.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
        yield names
    finally:
        libc.setns(outside, 0)
        os.close(outside)
        for name in names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


class Pair(House):
    """Two servers, each in its network, and a client that knows the addresses of both."""

    def __init__(self, folder: Path, networks: dict[str, str], database: str) -> None:
        super().__init__(folder)
        self.networks, self.database, self.started = networks, database, list[psutil.Popen]()
        self.urls = {ONE: f"http://{ONE}:{PORT}", TWO: f"http://{TWO}:{PORT}"}
        self.environment |= {"DRUMBEAT_SERVER": ",".join(self.urls.values()), "DRUMBEAT_TOKEN": "t" * 43}

    def popen(self, command: Sequence[str | Path], **options: Any) -> psutil.Popen:
        self.started.append(psutil.Popen([str(word) for word in command], start_new_session=True, **options))
        return self.started[-1]

    def start(self, address: str) -> psutil.Popen:
        home = self.folder / address
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "token").write_text(self.environment["DRUMBEAT_TOKEN"])
        command = [sys.executable, "-m", "drumbeat.server", "--home", home, "--idle-stop", "0"]
        there = ["--host", address, "--port", str(PORT), "--allow-remote"]
        variables = {"DRUMBEAT_DATABASE": self.database, "DRUMBEAT_SHARED": str(self.folder / "shared")}
        server = self.popen(
            ["nsenter", f"--net=/run/netns/{self.networks[address]}", *command, *there],
            env={**os.environ, **variables, "DRUMBEAT_HOME": str(self.home)},
        )
        until(lambda: self.answers(address, 200, 503), what=f"the start of the server at {address}")
        return server

    def close(self) -> None:
        for one in self.started:
            with contextlib.suppress(psutil.Error):
                one.kill()
            one.communicate(timeout=60)
        super().close()

    def answers(self, address: str, *statuses: int) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.urls[address]}/readyz", timeout=2).status_code in statuses
        return False

    def page_of(self, address: str) -> str:
        """Where the page of a server leads."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.urls[address]}/ui", timeout=2).headers.get("location", "")
        return ""

    def link(self, state: str) -> None:
        ip("-n", self.networks[ONE], "link", "set", "eth", state)


@pytest.fixture
def pair(networks: dict[str, str], tmp_path: Path) -> Iterator[Pair]:
    with guarded(tmp_path), a_cluster(HUB) as cluster, cluster.database() as name:
        pair = Pair(tmp_path, networks, f"postgresql+psycopg://{cluster.user}@{HUB}/{name}")
        try:
            yield pair
        finally:
            pair.close()


def kill(_pair: Pair, active: psutil.Popen) -> Callable[[], object]:
    active.kill()
    return lambda: _pair.start(ONE)


def stop(_pair: Pair, active: psutil.Popen) -> Callable[[], object]:
    active.send_signal(signal.SIGSTOP)
    return lambda: active.send_signal(signal.SIGCONT)


def cut_off(pair: Pair, _active: psutil.Popen) -> Callable[[], object]:
    pair.link("down")
    return lambda: pair.link("up")


@pytest.mark.parametrize("fail", [kill, *(pytest.param(one, marks=pytest.mark.thorough) for one in (stop, cut_off))])
def test_standby_takes_over_and_nothing_is_lost_or_done_twice(
    pair: Pair, fail: Callable[[Pair, psutil.Popen], Callable[[], object]]
):
    active = pair.start(ONE)
    until(lambda: pair.answers(ONE, 200), what="an active server")
    pair.start(TWO)
    until(lambda: "beside" in pair.run("server", "status").stdout, what="the standby in the list")
    pair.script(ONCE)
    path = pair.job_file(command=f"{sys.executable} t.py {pair.folder}", code=".")
    follower = pair.popen(
        [DRUMBEAT, "run", path, "--name", "first"],
        env=pair.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    until((pair.folder / "ran").exists, what="the start of the rank")
    names = ["first", "second", "third", "later"]
    for name in names[1:3]:  # Acknowledged, and hardly begun.
        assert pair.run("run", path, "--detach", "--name", name).returncode == 0

    wake = fail(pair, active)
    until(lambda: pair.answers(TWO, 200), what="the other's taking over")
    assert pair.run("run", path, "--detach", "--name", "later").returncode == 0
    (pair.folder / "go").touch()
    said, _ = follower.communicate(timeout=200)
    assert follower.returncode == 0, said
    assert "went on" in said

    wake()
    until(lambda: pair.page_of(ONE) == f"{pair.urls[TWO]}/ui", what="that the old one's page leads to the new one's")
    assert pair.answers(ONE, 503)
    for name in names:
        assert pair.run("wait", name).returncode == 0, pair.run("show", name).stdout
    assert sorted((pair.folder / "ran").read_text().split()) == sorted(names)
