"""Faults of what drumbeat needs: a store that refuses, is slow or changes its mind, and a database that crashes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time

import httpx
import pytest

from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import DrumbeatError
from tests.contract.postgres import Cluster, a_cluster
from tests.real.house import House, a_house
from tests.real.relays import Relay, a_relay
from tests.real.store_servers import WebServer, a_web_server
from tools.faults.scene import Play, Scene, Seen, until
from tools.faults.servers import PRINTED, PRINTS, judge

SIZE = 24 << 20
SLOW_BYTES_S = 6 << 20
HASHES = """
import hashlib
print(hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest())
"""
CRASHES = 3
WAITS = """
    while not is_marked('go'):
        time.sleep(0.01)
"""


class Input:
    """A file in a store, the line to it, and a job that is to read it."""

    def __init__(self, scene: Scene, web: WebServer, relay: Relay, name: str) -> None:
        self.web, self.relay, self.name = web, relay, f"{name}.bin"
        self.content = self._new()
        self.play = Play(scene, HASHES, ranks=1)
        self.play.keys = {
            "command": "python fault.py ${{inputs.data}}",
            "inputs": f"{{data: {{type: uri_file, path: 'http://127.0.0.1:{relay.port}/{self.name}'}}}}",
        }

    def _new(self) -> bytes:
        content = os.urandom(SIZE)
        self.web.put(self.name, content)
        return content

    def submit(self) -> str:
        """Gives the job's name."""
        return self.play.submit("max_retries: 0, lost_after_s: 60")

    def replace(self) -> None:
        """Another file of the same size, once the first one is on its way."""
        until(lambda: ("GET", f"/{self.name}") in [asked[:2] for asked in self.web.asked], "the first bytes")
        time.sleep(0.5)
        self.content = self._new()

    def not_failed(self, ended: JobView, why: str) -> str:
        """What isn't as it must be: it failed for this reason, and nothing was started; "" = nothing."""
        is_right = ended.state == "failed" and why in ended.sentence and not self.play.is_up()
        return "" if is_right else f"the job {ended.state}: {ended.sentence}"

    def wrong(self, job: str) -> str:
        """What isn't as it must be: its rank has read the whole file, and no other; "" = nothing."""
        ended, said = self.play.end(job), self.play.at.logs(job).get(0, "").split()
        if ended.state != "completed":
            return f"the job {ended.state}: {ended.sentence}"
        return "" if said == [hashlib.sha256(self.content).hexdigest()] else f"the rank read something else: {said}"


def refuse(scene: Scene, web: WebServer, relay: Relay) -> tuple[str, str]:
    """What is wrong, "" = nothing; and what is told."""
    there = Input(scene, web, relay, "refused")
    web.status = 403
    try:
        ended = there.play.end(there.submit())
    finally:
        web.status = 0
    return there.not_failed(ended, "the web server refuses"), f"refused: “{ended.sentence}”"


def slow(scene: Scene, web: WebServer, relay: Relay) -> tuple[str, str]:
    """It gets there."""
    there = Input(scene, web, relay, "slow")
    relay.bytes_s = SLOW_BYTES_S
    job = there.submit()
    until(lambda: " MB/s" in _detail(there, job), "the rate in what is told")
    relay.bytes_s = None
    return there.wrong(job), "slow: its rate was told"


def break_off(scene: Scene, web: WebServer, relay: Relay) -> tuple[str, str]:
    """Each answer ends after a third of the file."""
    there = Input(scene, web, relay, "half")
    web.cut = SIZE // 3
    try:
        return there.wrong(there.submit()), "broken off three times: gone on with"
    finally:
        web.cut = None


def lie(scene: Scene, web: WebServer, relay: Relay) -> tuple[str, str]:
    """Another file's bytes from the middle on: they are never put together."""
    there = Input(scene, web, relay, "other")
    relay.bytes_s = SLOW_BYTES_S
    job = there.submit()
    there.replace()
    relay.bytes_s = None
    ended = there.play.end(job)
    return there.not_failed(ended, "has changed since"), f"another file in its place while it came: “{ended.sentence}”"


def store(scene: Scene) -> Seen:
    """Four faults of one store, each with a file of its own."""
    folder = scene.new_folder()
    with a_web_server(folder) as web, a_relay(web.url) as relay:
        found = [one(scene, web, relay) for one in (refuse, slow, break_off, lie)]
    wrong = [f"{told.partition(':')[0]}: {what}" for what, told in found if what]
    return Seen("; ".join(wrong or [told for _, told in found]), None, not wrong)


def _detail(there: Input, job: str) -> str:
    return " ".join(node.detail for node in there.play.at.client.get(job).nodes)


def database(scene: Scene) -> Seen:
    """PostgreSQL is gone in the middle of whatever it does, while one job runs and others have just been taken."""
    folder = scene.new_folder()
    try:
        with a_cluster() as cluster, cluster.database() as name, a_house(folder / "main") as house:
            house.environment |= {"DRUMBEAT_DATABASE": cluster.url(name), "DRUMBEAT_SHARED": str(folder / "shared")}
            until(lambda: house.run("list").returncode == 0, "a server")
            return _crash_often(scene, house, cluster)
    except pytest.skip.Exception as error:  # Where there is no PostgreSQL, and none can be had.
        return Seen(f"not played: {error}", is_right=None)


def _crash_often(scene: Scene, house: House, cluster: Cluster) -> Seen:
    waits = Play(scene, WAITS + PRINTS, house=house)
    jobs, away = [waits.submit()], []
    until(waits.is_up, "the first job")
    for _ in range(CRASHES):
        jobs.append(Play(scene, PRINTS, house=house).submit())  # Acknowledged, and not a moment longer.
        cluster.crash()
        (waits.marks / "go").touch()  # Its ranks go on, and end while nobody can write it down.
        cluster.start()
        away.append(until(lambda: _answers(house, jobs[-1]), "an answer"))
    wrong = [judge(waits.end(job), house.logs(job), "completed", PRINTED) for job in jobs]
    bad = next(filter(None, wrong), "")
    fine = f"a job that ran and {CRASHES} that had just been taken completed, none twice, each line once"
    return Seen(bad or fine, max(away), not bad)


def _answers(house: House, job: str) -> bool:
    with contextlib.suppress(DrumbeatError, httpx.HTTPError):
        return bool(house.client.get(job))
    return False
