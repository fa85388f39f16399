"""The n-th write, fsync or rename of a node's own files fails, for every n: the job ends well, or says why not."""

from __future__ import annotations

import errno
import json
import shutil
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import JobView
from tests.real.house import House, a_house, until
from tests.real.store_servers import WebServer, a_web_server
from tests.runs import is_quick

pytestmark = [pytest.mark.feature("F10"), pytest.mark.timeout(1800)]

SOURCE = Path(__file__).with_name("faulty_disk.c")
LAYOUT = struct.Struct("iii500s")
AT_ONCE = 2
OUTPUTS = {"a.bin": b"0123456789" * 20_000, "b.txt": b"b\n"}
COMMAND = (
    "for i in 1 2 3; do echo line $i; done; cat said.txt ${{inputs.data}}/small; wc -c < ${{inputs.data}}/big; "
    "for n in {1..20000}; do printf 0123456789; done > outputs/a.bin; echo b > outputs/b.txt"
)
SAID = "line 1\nline 2\nline 3\nhello\nsmall\n{}\n"
STEP = 4
EVERY = 18
"""In `make test`, each 18th call fails, and each of MUST_FAIL; in `make thorough`, each call."""
NAMED = -1
MUST_FAIL = (
    "write /0/root/code.part/said.txt", "rename /0/root/code", "write /data/parts/", "rename /data/files/",
    "write /0/root/keeper/hold.json", "write /0/root/keeper/round.json.part", "fsync /0/root/keeper/round.json.part",
    "rename /0/root/keeper/round.json", "write /0/root/keeper/exits.jsonl", "fsync /0/root/keeper/exits.jsonl",
)  # fmt: skip
"""Calls that every job makes."""
NAMES_IT = ("No space left on device", "Input/output error", "can't be written", "disk")


@dataclass(frozen=True)
class FaultyDisk:
    """A house whose nodes' disk refuses one call of a job's, when it is told which."""

    house: House
    folder: Path
    web: WebServer

    def go(self, name: str, nth: int, call: str = "") -> tuple[JobView, int, str]:
        """Runs a job to its end; gives the number of calls and which failed: the n-th, if NAMED the first `call`."""
        control = self.folder / name
        control.write_bytes(LAYOUT.pack(0, nth, (errno.ENOSPC, errno.EIO)[nth % 2], call.encode()))
        self.web.put(f"{name}/big", name.encode() * 300_000)  # Others have another content: it is fetched.
        self.web.put(f"{name}/small", b"small\n")
        path = self.house.job_file(
            name, code=".", command=json.dumps(COMMAND), drumbeat="{grace_s: 3}",
            inputs=f"{{data: {{path: '{self.web.url}/{name}'}}}}",
        )  # fmt: skip
        self.house.script("hello\n", job=name, file="said.txt")
        self.house.client.submit(path, name=name)
        until(lambda: self.house.client.get(name).has_ended, 180, f"the end of {name}")
        count, nth, _, what = LAYOUT.unpack(control.read_bytes())
        return self.house.client.get(name), count, "" if nth == NAMED else what.rstrip(b"\0").decode()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyDisk]:
    compiler = shutil.which("cc") or pytest.skip("a C compiler is needed (Debian: apt-get install gcc libc6-dev)")
    folder = tmp_path_factory.mktemp("faulty")
    library = folder / "faulty_disk.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    (folder / "jobs").mkdir()
    with (
        a_house(tmp_path_factory.mktemp("house")) as house,
        a_web_server(tmp_path_factory.mktemp("web")) as web,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("DRUMBEAT_CACHE", str(house.folder / "cache"))
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("FAULTY_DISK", str(folder / "jobs"))
        house.client.status()
        house.client.create_datastore(web.naming()["named"], check=False)
        patch.delenv("LD_PRELOAD")  # Only the server's children are to have it.
        yield FaultyDisk(house, folder / "jobs", web)


def test_whichever_call_fails_the_job_ends_whole_or_says_why(disk: FaultyDisk, pytestconfig: pytest.Config):
    stride = EVERY if is_quick(pytestconfig) else 1
    job, count, what = disk.go("whole", 0)
    assert (job.state, what) == ("completed", "")
    found: list[tuple[str, str]] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # From job to job there is a call more or less: as long as there is one to fail.
        for first in range(1, 3 * count, STEP * stride):
            calls = range(first, first + STEP * stride, stride)
            found += (batch := list(pool.map(partial(tell, disk), calls)))
            if not any(failed for failed, _ in batch):
                break
    assert [(failed, trouble) for failed, trouble in found if trouble] == []
    failed_calls = "\n".join(failed for failed, _ in found)
    # And what one of them had later than the one before it, so that counting passed it by.
    for number, call in enumerate(one for one in MUST_FAIL if one not in failed_calls):
        failed, trouble = tell(disk, NAMED, call, f"named-{number}")
        assert (failed[: len(call)], trouble) == (call, "")
    nothing_is_left(disk.house)


def tell(disk: FaultyDisk, nth: int, call: str = "", name: str = "") -> tuple[str, str]:
    """Which call failed, "" = none, and what isn't as it should be then."""
    job, _, failed = disk.go(name or f"fails-{nth}", nth, call)
    try:
        check(disk.house, job)
    except AssertionError as error:
        return failed, f"{job.name}: {job.state}, {job.sentence}: {error}"
    return failed, ""


def check(house: House, job: JobView) -> None:
    last = [piece for piece in house.client.logs(job.name) if (piece.attempt, piece.round) == (job.attempt, job.round)]
    said = "".join(piece.text for piece in last if piece.rank == 0)
    whole = SAID.format(len(job.name) * 300_000)
    kept = house.home / "jobs" / job.name / "outputs" / "default"
    there = {str(one.relative_to(kept)): one.read_bytes() for one in kept.rglob("*") if one.is_file()}
    if job.state == "completed":
        assert said == whole
        assert there == OUTPUTS
    else:
        told = f"{job.sentence} {job.verdict}"
        assert any(word in told for word in NAMES_IT), told
        assert whole.startswith(said)
        assert all(OUTPUTS[path] == content for path, content in there.items())


def nothing_is_left(house: House) -> None:
    nodes = house.home / "nodes"
    until(lambda: not list(nodes.glob("*")), 60, "an empty folder of nodes")
    server = house.server().pid
    until(lambda: {p.pid for p in house.processes()} <= {server}, 60, "the end of every process")
    until(lambda: not house.client.computes()[0].held, 60, "the giving back of the slots")
