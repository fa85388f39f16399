"""Logs through the real agent, server and command line: whatever a rank does to its output, each byte comes once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .house import DRUMBEAT, House, until

pytestmark = pytest.mark.feature("M1")

MIB = 1 << 20
MOST_MIB = 160
"""Memory of a follower: Python, httpx, and a few pieces of log."""


class Following:
    """`drumbeat logs -f`, read to its end."""

    def __init__(self, house: House, job: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [DRUMBEAT, "logs", "-f", job, *options], env=house.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.peak_kib = 0

    def pieces(self):
        with self.process:
            while piece := self.process.stdout.read(MIB):
                self.peak_kib = max(self.peak_kib, peak_kib(self.process.pid))
                yield piece
            self.said = self.process.stderr.read().decode()
        assert self.process.returncode == 0, self.said

    def whole(self) -> bytes:
        return b"".join(self.pieces())


def peak_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def submitted(house: House, name: str, command: str, ranks: int = 1) -> str:
    path = house.job_file(name, command=command, distribution=f"{{type: pytorch, process_count_per_instance: {ranks}}}")
    return house.client.submit(path).name


def stored(house: House, job: str, rank: int = 0) -> Path:
    return house.home / "jobs" / job / "logs" / "1.1" / "0" / f"{rank}.log"


def completed(house: House, job: str) -> None:
    ended = house.client.wait(job, 120)
    assert ended is not None
    assert ended.state == "completed", ended.sentence


@pytest.mark.thorough
def test_200_mib_on_one_line_arrive_whole_and_take_little_memory(house: House):
    job = submitted(house, "line", "head -c 209715200 /dev/zero | tr '\\0' x")
    following = Following(house, job)
    assert sum(piece.count(b"x") for piece in following.pieces()) == 200 * MIB
    assert following.peak_kib < MOST_MIB * 1024
    with stored(house, job).open("rb") as log:
        found = hashlib.file_digest(log, "sha256").hexdigest()
    expected = hashlib.sha256()
    for _ in range(200):
        expected.update(b"x" * MIB)
    assert found == expected.hexdigest()


@pytest.mark.thorough
def test_a_binary_log_is_kept_as_it_is_and_shown_without_harm(house: House, tmp_path: Path):
    job = submitted(house, "binary", "(head -c 2000000 /dev/urandom; head -c 1000000 /dev/zero) | tee outputs/copy")
    shown = Following(house, job).whole()
    completed(house, job)
    assert not set(shown) & (set(range(32)) - {9, 10}), "no control character reaches a terminal"
    assert shown.count(b"\\x00") >= 1_000_000
    assert house.run("download", job, "--to", tmp_path / "got").returncode == 0
    assert (tmp_path / "got" / "logs/1.1/0/0.log").read_bytes() == (tmp_path / "got/outputs/default/copy").read_bytes()


@pytest.mark.thorough
def test_two_ranks_flood_while_the_server_is_killed_and_no_line_is_lost_or_doubled(own_house: House):
    house = own_house
    script = (
        "import os\n"
        "for n in range(40):\n"
        "    os.write(1, b''.join(b'%d\\n' % (10_000 * n + i) for i in range(10_000)))\n"
        "    while n == 20 and not os.path.exists(os.environ['GO']): pass\n"
    )
    house.script(script, "flood")
    go = house.folder / "go"
    path = house.job_file(
        "flood", code=".", command=f"{sys.executable} -S t.py", environment_variables=f"{{GO: '{go}'}}",
        distribution="{type: pytorch, process_count_per_instance: 2}",
    )  # fmt: skip
    job = house.client.submit(path).name
    following = Following(house, job)
    until(lambda: all(stored(house, job, rank).exists() for rank in (0, 1)))
    house.server().kill()
    go.touch()
    house.client.status()  # Starts another one.
    lines = following.whole().decode().splitlines()
    for rank in (0, 1):
        mine = [int(line.partition("│")[2]) for line in lines if line.startswith(f"0:{rank} │")]
        assert mine == list(range(400_000))
    assert len(lines) == 800_000


def test_a_log_that_is_cut_and_closed_by_its_own_command_goes_on_and_ends(house: House):
    go = house.folder / "cut.go"
    command = f"echo first; while [ ! -e {go} ]; do sleep 0.01; done; echo cut > /dev/stderr; echo on; exec >&- 2>&-"
    job = submitted(house, "cut", command)
    until(lambda: house.logs(job).get(0) == "first\n")
    go.touch()
    completed(house, job)
    assert house.logs(job)[0] == "first\ncut\non\n"


@pytest.mark.feature("F10")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")
def test_on_a_full_disk_the_rank_goes_on_and_its_log_waits_for_room(own_house: House):
    house = own_house
    jobs = house.home / "jobs"
    jobs.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", jobs], check=True)
    try:
        written = house.folder / "written"
        wait = f"while [ ! -e {house.folder}/end ]; do sleep 0.01; done"
        command = f"seq -f %099.0f 400000; touch {written}; {wait}; echo end"
        job = submitted(house, "full", command)
        until(written.exists)
        until(lambda: house.client.get(job).notice)
        out, err = house.folder / "out", house.folder / "err"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            following = subprocess.Popen(
                [DRUMBEAT, "logs", "-f", job, "--raw"], env=house.environment, stdout=to_out, stderr=to_err
            )
        until(lambda: "its logs wait on their nodes" in err.read_text(), what="the follower's word of it")
        assert "its logs wait on their nodes" in house.run("logs", job, "--rank", "0").stderr
        assert "Make room on it" in " ".join(house.run("show", job).stdout.split())
        (house.folder / "end").touch()
        subprocess.run(["mount", "-o", "remount,size=200m", jobs], check=True)
        assert following.wait(120) == 0, err.read_text()
        completed(house, job)
        shown = out.read_bytes()
        assert shown == "".join(f"{n:099}\n" for n in range(1, 400_001)).encode() + b"end\n"
        assert stored(house, job).read_bytes() == shown
        assert "its logs continue" in err.read_text()
        assert house.client.get(job).notice == ""
    finally:
        house.close()
        subprocess.run(["umount", "-l", jobs], check=True)
