"""The web page in headless Chromium over a real server: every screen with live jobs, and hostile jobs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model.states import JobKind
from drumbeat.server.page.first_requests import KnownJob, first_requests
from tests.runs import is_thorough

from .browsers import Seen, drive, find_browser, run_own_tests
from .house import House, a_house, until

pytestmark = [pytest.mark.feature("M3"), pytest.mark.timeout(900)]

MARKUP = "<b>bold</b><img src=x onerror=alert(1)><script>alert(2)</script>"
TRAIN = """
import os, pathlib, sys, time
import drumbeat
rank = int(os.environ["RANK"])
for step in range(int(sys.argv[1])):
    drumbeat.log(loss=float(sys.argv[2]) / (step + 1), step=step)
    print(f"step {step} of rank {rank}", flush=True)
    if step == 3 and rank == 1 and "fail" in sys.argv:
        raise RuntimeError("no such class")
    if "wait" in sys.argv:
        time.sleep(0.2)
folder = pathlib.Path(os.environ["DRUMBEAT_OUTPUT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / f"table-{rank}.csv").write_text("epoch,loss\\n1,0.5\\n")
"""
JOBS = {
    "good": "command: python train.py 20 1.0\ndistribution: {type: pytorch, process_count_per_instance: 2}\n",
    "bad": (
        "command: python train.py 20 2.0 fail\ndistribution: {type: pytorch, process_count_per_instance: 2}\n"
        "drumbeat: {max_retries: 0}\n"
    ),
    "tuned": (
        "type: sweep\ntrial: {command: 'python train.py 4 ${{search_space.lr}}', code: .}\nsampling_algorithm: grid\n"
        "search_space: {lr: {type: choice, values: [0.1, 0.2, 0.4]}, kind: {type: choice, values: [a]}}\n"
        "objective: {goal: minimize, primary_metric: loss}\nlimits: {max_total_trials: 3, max_concurrent_trials: 3}\n"
    ),
    "flow": (
        "type: pipeline\njobs:\n"
        "  prepare: {command: 'echo 1 > ${{outputs.data}}/a', outputs: {data: {type: uri_folder}}}\n"
        "  train: {command: 'cat ${{inputs.data}}/a', inputs: {data: '${{parent.jobs.prepare.outputs.data}}'}}\n"
    ),
    "live": (
        "command: python train.py 100000 3.0 wait\ndistribution: {type: pytorch, process_count_per_instance: 2}\n"
        "resources: {instance_count: 2}\ndrumbeat: {preflight: true}\n"
        "services: {files: {type: files, properties: {command: 'python -m http.server $DRUMBEAT_SERVICE_PORT'}}}\n"
    ),
    "late": f"command: echo late\nresources: {{instance_count: {os.cpu_count()}}}\n",  # It needs what `live` holds.
}
STOPPED = """
import os, signal, threading
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSTOP)
threading.Event().wait()
"""
SCHEDULE = """
name: nightly
trigger: {type: cron, expression: "0 3 1 1 *"}
create_job: ./job.yml
"""
PAGE = Path(__file__).parents[2] / "page" / "src"
TABBED = (PAGE / "screens" / "job" / "job.tsx", PAGE / "screens" / "catalog.tsx")
QUICK_LOOKS = (("phone", "light"), ("laptop", "dark"))
LOOKS = tuple(product(("phone", "laptop", "wide"), ("light", "dark"))) if is_thorough() else QUICK_LOOKS
SCREENS = {
    "jobs": ("/", "good"),
    "jobs that failed": ("/?state=failed", "bad"),
    "overview": ("/jobs/good", "What it took"),
    "logs": ("/jobs/live?tab=logs", "of rank"),
    "cause": ("/jobs/bad", "no such class"),
    "failing line": ("/jobs/bad?rank=1&at=failure", "RuntimeError"),
    "wait": ("/jobs/late", "late"),
    "metrics": ("/jobs/live?tab=metrics", "loss"),
    "ranks": ("/jobs/bad?tab=ranks", "failed first"),
    "outputs": ("/jobs/good?tab=outputs&file=outputs/default/table-0.csv", "epoch"),
    "preflight": ("/jobs/live?tab=ranks", "Pre-flight"),
    "service": ("/jobs/live?tab=story", "Open files"),
    "resources": ("/jobs/live?tab=resources", "CPU in use"),
    "story": ("/jobs/good?tab=story", "exit code 0"),
    "file": ("/jobs/good?tab=file", "process_count_per_instance"),
    "trials": ("/jobs/tuned", "best"),
    "trial curves": ("/jobs/tuned?tab=curves", "stands out"),
    "settings": ("/jobs/tuned?tab=settings", "drag along"),
    "graph": ("/jobs/flow", "prepare"),
    "rehearsal": ("/jobs/REHEARSAL-1-kill?tab=rehearsal", "All jobs of this rehearsal"),
    "rehearsed": ("/jobs/REHEARSAL-1-kill", "Rehearsed with"),
    "compare": ("/compare?job=good&job=bad", "What differs"),
    "experiments": ("/experiments", "tests"),
    "schedules": ("/schedules", "nightly"),
    "endpoints": ("/endpoints", "ships"),
    "endpoint": ("/endpoints/ships", "Try a request"),
    "computes": ("/computes", "this machine"),
    "data": ("/data", "No data"),
    "models": ("/data?tab=models", "No model"),
    "environments": ("/data?tab=environments", "Curated"),
    "datastores": ("/data?tab=datastores", "built in"),
    "docs": ("/docs", "Every command has"),
    "ledger": ("/ledger", "idle while held"),
    "server": ("/server", "What takes space"),
    "nowhere": ("/nowhere", "no such page"),
}  # fmt: skip


def write(house: House, name: str, text: str, script: str = TRAIN) -> Path:
    folder = house.folder / name
    folder.mkdir()
    (folder / "train.py").write_text(script)
    (folder / "job.yml").write_text(
        f"name: {name}\nexperiment_name: tests\n{'' if 'type: ' in text[:6] else 'code: .'}\n{text}"
    )
    return folder / "job.yml"


def start(house: House, name: str, *options: str) -> None:
    done = house.run("run", *options, write(house, name, JOBS[name]))
    assert "--detach" in options or done.returncode == (1 if name == "bad" else 0), done.stdout + done.stderr


def schedule(house: House) -> None:
    job = write(house, "scheduled", "command: python train.py\n")
    file = job.with_name("schedule.yml")
    file.write_text(SCHEDULE)
    done = house.run("schedule", "create", "-f", file)
    assert done.returncode == 0, done.stdout + done.stderr


def deploy(house: House) -> None:
    """An endpoint whose replica waits for the slots of the live job, where the machine has no more."""
    folder = house.folder / "served"
    folder.mkdir()
    (folder / "score.py").write_text("def init():\n    pass\n\n\ndef run(data):\n    return data\n")
    file = folder / "blue.yml"
    code = "code_configuration: {code: ., scoring_script: score.py}"
    file.write_text(f"name: blue\nendpoint_name: ships\n{code}\n")
    for command in (("online-endpoint", "create", "ships"), ("online-deployment", "create", "--no-wait", "-f", file)):
        done = house.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def rehearse(house: House) -> None:
    counts = Path(__file__).with_name("counting_rank.py").read_text()
    file = write(house, "counts", "command: python train.py\nenvironment_variables: {STEPS: '16'}\n", counts)
    done = house.run("rehearse", file, "--runs", "1", "--faults", "kill", "--to", house.folder / "report", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def walk_of(house: House) -> list[dict[str, Any]]:
    """A step for each screen, opened once and looked at in both schemes; in `make thorough` each in three sizes."""
    tag = json.loads((house.folder / "report" / "report.json").read_text())["tag"]
    looks = [{"size": size, "scheme": scheme} for size, scheme in LOOKS]
    return [
        {"name": name, "path": path.replace("REHEARSAL", tag), "wait": text, "size": "phone", "looks": looks}
        for name, (path, text) in SCREENS.items()
    ]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Jobs that completed, failed, run and wait; a sweep, a pipeline, a rehearsal, a schedule and an endpoint."""
    find_browser()
    with a_house(tmp_path_factory.mktemp("busy")) as house:
        for name in ("good", "bad", "tuned", "flow"):
            start(house, name)
        rehearse(house)
        schedule(house)
        start(house, "live", "--detach")
        until(lambda: house.client.get("live").primary, what="a metric of the live job")
        start(house, "late", "--detach")
        deploy(house)
        yield house


def require_clean(seen: Seen) -> None:
    assert seen.reports == [], seen.name
    assert seen.violations == [], seen.name
    assert not seen.wide, seen.name
    assert seen.foreign == 0, seen.name


def test_every_screen_is_quiet_accessible_and_fits(busy: House):
    seen = drive(busy, walk_of(busy))
    assert list(seen) == list(SCREENS)
    for one in seen.values():
        require_clean(one)
    assert "RuntimeError: no such class" in seen["failing line"].text
    assert "rank 1" in seen["cause"].text
    assert "bit/s" in seen["preflight"].text
    assert "kill of rank" in seen["rehearsed"].text


def test_walk_goes_to_every_screen_of_the_page():
    targets = re.findall(r'path: "(/[a-z]*)", label', (PAGE / "targets.ts").read_text())
    tabs = re.findall(r'\{ id: "([a-z]+)", label', "".join(path.read_text() for path in TABBED))
    walked = [path for path, _ in SCREENS.values()]
    assert len(targets) == 10
    assert len(tabs) > 15
    assert {*targets} <= {path.partition("?")[0] for path in walked}
    first = {"overview": "/jobs/good", "trials": "/jobs/tuned", "graph": "/jobs/flow", "data": "/data"}
    missed = [tab for tab in tabs if not any(f"tab={tab}" in path for path in walked) and first.get(tab) not in walked]
    assert missed == []


@pytest.mark.thorough
def test_html_names_exactly_what_its_screens_ask_for(busy: House):
    addresses = {"metrics": ("command", ("loss",)), "logs": ("command", ()),
                 "overview": ("command", ()), "jobs that failed": ("", ()),
                 "trials": ("sweep", ()), "trial curves": ("sweep", ()), "compare": ("", ())}  # fmt: skip
    named: dict[str, tuple[str, ...]] = {}
    for name, (kind, metrics) in addresses.items():
        path, _, query = SCREENS[name][0].partition("?")
        named[name] = first_requests(path, query, KnownJob(JobKind(kind), metrics=metrics) if kind else None).answers
    steps = [
        {"name": name, "path": SCREENS[name][0], "wait": SCREENS[name][1], "checks": False,
         "asks": [one.partition("?")[0] for one in answers]}
        for name, answers in named.items()
    ]  # fmt: skip
    for name, seen in drive(busy, steps).items():
        for one in named[name]:
            place = one.partition("?")[0]
            assert {asked for asked in seen.asked if asked.partition("?")[0] == place} == {one}, name


@pytest.mark.thorough
@pytest.mark.feature("F4")
def test_job_that_hangs_opens_on_its_cause_with_a_link_to_the_stacks(tmp_path: Path):
    find_browser()
    with a_house(tmp_path) as house:
        text = (
            "command: python train.py\ndistribution: {type: pytorch, process_count_per_instance: 1}\n"
            "resources: {instance_count: 2}\ndrumbeat: {hang_after_s: 1}\n"
        )
        house.run("run", "--detach", write(house, "stuck", text, STOPPED))
        until(lambda: any("hangs" in line.sentence for line in house.client.story("stuck")), 120, "the hang")
        steps = [
            {"name": "cause", "path": "/jobs/stuck", "wait": "The stacks of all ranks"},
            {"name": "ranks", "path": "/jobs/stuck?tab=ranks", "wait": "the others wait: it is stopped (SIGSTOP)"},
            {"name": "stacks", "path": "/jobs/stuck?tab=outputs&file=hangs/1.1.txt", "wait": "is stopped"},
        ]  # fmt: skip
        for one in drive(house, steps).values():
            require_clean(one)


@pytest.mark.thorough
def test_actions_keys_and_filters_work(busy: House):
    steps = [
        {"name": "keys", "path": "/", "wait": "good", "key": "?", "then": "This list of keys"},
        {"name": "bell", "path": "/", "wait": "good", "click": "Show a desktop notice when a job ends"},
        {"name": "filter", "path": "/", "wait": "good", "type": "tuned", "then": "tuned", "pause": 1500},
        {"name": "archive", "path": "/jobs/good", "wait": "good", "click": "Archive", "then": "nothing is deleted"},
        {"name": "cancel", "path": "/jobs/late", "wait": "late", "click": ["Cancel"], "then": "SIGTERM"},
    ]  # fmt: skip
    seen = drive(busy, steps)
    for one in seen.values():
        require_clean(one)
    assert seen["filter"].url.endswith("?text=tuned")
    assert "good" not in seen["filter"].text


def hostile(house: House) -> dict[str, Any]:
    script = f"""
import os, pathlib
import drumbeat
drumbeat.log(**{{"loss": 1.0, {MARKUP!r}: 2.0}}, step=1)
print({MARKUP!r}, "\\x1b[31mred\\x1b[0m \\x1b]8;;http://evil.example\\x07link\\x07", flush=True)
folder = pathlib.Path(os.environ["DRUMBEAT_OUTPUT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "<b>name.txt").write_text({MARKUP!r})
(folder / "picture.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(3)</script></svg>')
"""
    keys = f"display_name: {MARKUP!r}\ndescription: {MARKUP!r}\ntags: {{{MARKUP!r}: {MARKUP!r}}}\n"
    job = write(house, "hostile", f"{keys}command: python train.py\n", script)
    done = house.run("run", job)
    assert done.returncode == 0, done.stdout + done.stderr
    return {"checks": False}


@pytest.mark.feature("M11")
def test_code_of_the_page_passes_its_own_tests():
    assert " passed" in run_own_tests("--exclude", "tests/*screens.test.mjs")


@pytest.mark.thorough
def test_screens_stand_slow_restarted_and_forgetful_servers():
    find_browser()
    printed = run_own_tests("tests/screens.test.mjs")
    assert "skipped" not in printed


@pytest.mark.thorough
@pytest.mark.feature("M12", "M16")
def test_tables_of_runs_and_comparisons_of_many_jobs_in_a_browser():
    find_browser()
    printed = run_own_tests("tests/runs-screens.test.mjs")
    assert "skipped" not in printed


@pytest.mark.thorough
@pytest.mark.feature("M16")
@pytest.mark.parametrize(
    "subject", ["labels", "run-again", "own-charts", "logs", "away", "small", "sweeps", "artifacts", "use-over-time"]
)
def test_notes_charts_logs_artifacts_and_jobs_that_run_again_in_a_browser(subject: str):
    find_browser()
    printed = run_own_tests(f"tests/{subject}-screens.test.mjs")
    assert "skipped" not in printed


@pytest.mark.thorough
@pytest.mark.feature("R2")
def test_endpoints_with_curves_and_a_tried_request_in_a_browser():
    find_browser()
    printed = run_own_tests("tests/endpoints-screens.test.mjs")
    assert "skipped" not in printed


def test_markup_in_names_logs_and_files_stays_text(tmp_path: Path):
    find_browser()
    with a_house(tmp_path) as house:
        quick = hostile(house)
        steps = [
            {"name": "jobs", "path": "/", "wait": "hostile", **quick},
            {"name": "note", "path": "/jobs/hostile?tab=story", "wait": "<script>", **quick},
            {"name": "logs", "path": "/jobs/hostile?tab=logs", "wait": "red link", **quick},
            {"name": "files", "path": "/jobs/hostile?tab=outputs", "wait": "name.txt", **quick},
            {
                "name": "picture", "path": "/jobs/hostile?tab=outputs&file=outputs/default/picture.svg",
                "wait": "picture.svg", **quick,
            },
        ]  # fmt: skip
        seen = drive(house, steps)
        for one in seen.values():
            require_clean(one)
        assert "red link" in seen["logs"].text
        assert MARKUP in seen["logs"].text
        assert MARKUP in seen["note"].text
        assert seen["jobs"].transferred < 250_000
