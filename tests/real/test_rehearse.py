"""`drumbeat rehearse` with real jobs: scripts that resume right, and scripts with one defect, named with its line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.node.host import processes
from drumbeat.rehearsal.job_record import collect
from drumbeat.rehearsal.metric_comparison import compare_series, last_values, main_series
from drumbeat.rehearsal.target_processes import TargetProcess

from .demo_job import demo_job
from .house import House, a_house, until
from .places import Place, netlab, slurm

HERE = Path(__file__).parent
SCRIPT = HERE / "counting_rank.py"
pytestmark = [pytest.mark.feature("F9"), pytest.mark.timeout(1800)]
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: netlab makes network namespaces")


def rehearse(house: House, file: Path, *words: str, code: int = 0) -> dict[str, Any]:
    done = house.run("rehearse", file, "--to", house.folder / "report", "--json", *words, timeout=1500)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout)


def counting_job(house: House, *changes: tuple[str, str], steps: int = 30) -> Path:
    text = SCRIPT.read_text()
    for removed, put in changes:
        assert removed in text
        text = text.replace(removed, put)
    house.script(text, file="train.py")
    return house.job_file(
        code=".",
        command="python train.py",
        environment_variables=f"{{STEPS: '{steps}'}}",
        distribution="{type: pytorch, process_count_per_instance: 2}",
    )


def line_of(house: House, part: str) -> str:
    lines = (house.folder / "job" / "train.py").read_text().splitlines()
    return f"train.py:{next(number for number, line in enumerate(lines, 1) if part in line)}"


def test_script_that_resumes_right_is_equal_after_a_kill(house: House):
    report = rehearse(house, counting_job(house, steps=16), "--runs", "1", "--faults", "kill")
    (run,) = report["runs"]
    assert (run["fault"], run["is_equal"], run["restarts"], run["state"]) == ("kill", True, 1, "completed")
    assert run["target"].startswith("rank ")
    assert run["cost"]["resumed"] > 1
    assert report["judged"] == ["total"]
    assert report["hints"] == []
    assert report["verdict"] == "The run with a fault equals the unbroken one, bit for bit: metrics and files."
    jobs = [job.name for job in house.client.list() if job.tags.get("rehearsal") == report["tag"]]
    assert sorted(jobs) == sorted([*(one["job"] for one in report["unbroken"]), run["job"]])
    page = (house.folder / "report" / "report.md").read_text()
    assert report["verdict"] in page
    assert kept_with(house, report["unbroken"][0]["job"]) == {"report.json": report, "report.md": page}


def kept_with(house: House, job: str) -> dict[str, Any]:
    """The files of the report among the artifacts of a job."""
    paths = house.client.download(job, house.folder / "kept", under="outputs/mlflow-artifacts")
    texts = {path.name: path.read_text() for path in paths if path.parent.name == "rehearsal"}
    return {name: json.loads(text) if name.endswith(".json") else text for name, text in texts.items()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "code", "change", "at"),
    [
        ("starts-over", "no-load", ("step, total = load()", "step, total = 0, 0.0"), "part.write_text"),
        ("state-missing", "random-states-not-saved", ("random.setstate(", "("), ""),
        ("nondeterministic", "no-seed", ("random.seed(RANK)", "pass"), "random.random()"),
    ],
)
def test_defect_is_observed_and_named_with_its_line(
    house: House, kind: str, code: str, change: tuple[str, str], at: str
):
    changes = [change]
    if kind == "starts-over":
        changes += [("    state = json.loads(PLACE.read_text())\n", "    state = None\n"), ("PLACE.exists()", "True")]
    if kind == "state-missing":
        changes.append((', "random": random.getstate()', ""))
        changes.append(('    version, numbers, gauss = state["random"]\n    ((version, tuple(numbers), gauss))\n', ""))
        at = "part.write_text"
    report = rehearse(house, counting_job(house, *changes), "--runs", "1", "--faults", "kill", code=1)
    assert kind in [one["kind"] for one in report["observations"]]
    assert (code, line_of(house, at), True) in [
        (hint["code"], hint["where"], hint["is_observed"]) for hint in report["hints"]
    ]


@pytest.mark.thorough
@is_root
def test_full_disk_and_every_other_fault_on_this_machine_leave_an_equal_job(house: House):
    file = counting_job(house, steps=60)
    faults = ["kill", "stop", "agent", "keeper", "fill-disk"]
    report = rehearse(house, file, "--runs", "5", "--faults", ",".join(faults), "--lasts", "2")
    assert [(run["fault"], run["is_equal"]) for run in report["runs"]] == [(fault, True) for fault in faults]


# --- the model and data of the demo ---------------------------------------------------------------------------------
def check_demo(house: House, compute: str, faults: str) -> None:
    pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
    kinds = faults.split(",")
    report = rehearse(house, demo_job(house.folder, compute), "--faults", faults, "--runs", str(len(kinds)))
    assert [(run["fault"], run["is_equal"], run["differences"]) for run in report["runs"]] == [
        (kind, True, []) for kind in kinds
    ]
    assert {"loss", "rate"} <= {*report["judged"]}
    assert report["hints"] == []


@pytest.mark.thorough
@pytest.mark.feature("T5")
def test_demo_has_the_same_loss_curve_after_every_fault_on_local(tmp_path: Path):
    with a_house(tmp_path) as house:
        check_demo(house, "local", "kill,stop,agent,keeper")


@pytest.mark.thorough
@pytest.mark.feature("T5")
@is_root
def test_demo_has_the_same_loss_curve_after_every_fault_on_netlab(tmp_path: Path):
    with netlab(tmp_path) as place:
        check_demo(place.house, "lab", "kill,stop,cut")


@contextlib.contextmanager
def demo_on(place: Place, name: str) -> Generator[str]:
    sets = [f"compute={place.compute}"]
    job = place.house.client.submit(place.house.folder / "demo" / "job.yml", sets=sets, name=name)
    yield job.name
    ended = place.house.client.wait(job.name, 900)
    assert ended is not None
    assert ended.state == "completed", ended.sentence


def rank_of(job: str, number: int) -> TargetProcess:
    """The process of a rank; on Slurm its folder doesn't say whose it is."""
    wanted = {"DRUMBEAT_JOB": job, "RANK": str(number)}
    pids = [pid for pid, values in processes.environments(*wanted) if values == wanted and not processes.is_spare(pid)]
    pid = next(pid for pid in pids if processes.is_python(pid))
    return TargetProcess(pid, processes.birth(pid), f"rank {number}", number)


@pytest.mark.thorough
@pytest.mark.feature("T5")
@is_root
def test_demo_has_the_same_loss_curve_after_a_kill_and_a_stop_on_slurm(tmp_path: Path):
    pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")
    with slurm(tmp_path) as place:
        client = place.house.client
        demo_job(place.house.folder, place.compute)
        with demo_on(place, "unbroken"):
            pass
        unbroken = collect(client, "unbroken", tmp_path / "files", tmp_path / "none")
        key = main_series(unbroken.logged)
        assert key
        assert len(last_values(unbroken.logged[key])) > 20
        for signal_number in (signal.SIGKILL, signal.SIGSTOP):
            name = f"struck-{signal_number.name.lower()}"
            with demo_on(place, name):
                until(lambda job=name: any(s.last.step >= 8 for s in client.metrics(job).series if s.rank == 0), 300)
                rank = rank_of(name, 1)
                assert rank.send(signal_number)
                if signal_number == signal.SIGSTOP:
                    time.sleep(3)  # It is the fault itself: the rank stands still for so long.
                    assert rank.send(signal.SIGCONT)
            struck = collect(client, name, tmp_path / "files", tmp_path / "none")
            assert struck.restarts == (signal_number == signal.SIGKILL)
            assert compare_series(unbroken.logged, struck.logged) == []


# --- what can't be rehearsed ----------------------------------------------------------------------------------------
def test_server_elsewhere_is_refused_and_nothing_is_started(house: House):
    file = counting_job(house)
    jobs, url = house.client.list(), house.client.status().url
    elsewhere = {**house.environment, "DRUMBEAT_SERVER": url, "DRUMBEAT_HOME": str(house.folder / "other")}
    elsewhere["DRUMBEAT_TOKEN"] = (house.home / "token").read_text().strip()
    words = [str(Path(sys.executable).with_name("drumbeat")), "rehearse", str(file)]
    done = subprocess.run(words, env=elsewhere, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert f"the server {url} isn't on this machine" in " ".join(done.stderr.split())
    assert house.client.list() == jobs
