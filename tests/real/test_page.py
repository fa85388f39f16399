"""The web page in headless Chromium over a real server: every screen with live jobs, and hostile jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.protocol.states import JobKind
from drumbeat.server.page.first_requests import KnownJob, first_requests

from .browsers import Seen, drive, find_browser
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
SCREENS = {
    "jobs": ("/", "good"),
    "jobs that failed": ("/?state=failed", "bad"),
    "logs": ("/jobs/live", "of rank"),
    "cause": ("/jobs/bad", "no such class"),
    "failing line": ("/jobs/bad?rank=1&at=failure", "RuntimeError"),
    "wait": ("/jobs/late", "late"),
    "metrics": ("/jobs/live?tab=metrics", "loss"),
    "ranks": ("/jobs/bad?tab=ranks", "failed first"),
    "outputs": ("/jobs/good?tab=outputs&file=outputs/default/table-0.csv", "epoch"),
    "preflight": ("/jobs/live?tab=ranks", "Pre-flight"),
    "service": ("/jobs/live?tab=story", "Open files"),
    "resources": ("/jobs/live?tab=resources", "logarithmic"),
    "story": ("/jobs/good?tab=story", "exit code 0"),
    "file": ("/jobs/good?tab=file", "process_count_per_instance"),
    "trials": ("/jobs/tuned", "best"),
    "trial curves": ("/jobs/tuned?tab=curves", "stands out"),
    "settings": ("/jobs/tuned?tab=settings", "drag along"),
    "graph": ("/jobs/flow", "prepare"),
    "compare": ("/compare?job=good&job=bad", "What differs"),
    "experiments": ("/experiments", "tests"),
    "computes": ("/computes", "this machine"),
    "data": ("/data", "No data"),
    "environments": ("/data?tab=environments", "Curated"),
    "datastores": ("/data?tab=datastores", "built in"),
    "ledger": ("/ledger", "queue"),
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


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Jobs that completed, failed, run and wait; a sweep and a pipeline."""
    find_browser()
    with a_house(tmp_path_factory.mktemp("busy")) as house:
        for name in ("good", "bad", "tuned", "flow"):
            start(house, name)
        start(house, "live", "--detach")
        until(lambda: house.client.get("live").primary, what="a metric of the live job")
        start(house, "late", "--detach")
        yield house


def require_clean(seen: Seen) -> None:
    assert seen.reports == [], seen.name
    assert seen.violations == [], seen.name
    assert not seen.wide, seen.name
    assert seen.foreign == 0, seen.name


@pytest.mark.thorough
@pytest.mark.parametrize(("scheme", "size"), [("light", "laptop"), ("dark", "phone")])
def test_every_screen_is_quiet_accessible_and_fits(busy: House, scheme: str, size: str):
    look = {"scheme": scheme, "size": size}
    steps = [{"name": name, "path": path, "wait": text, **look} for name, (path, text) in SCREENS.items()]
    seen = drive(busy, steps)
    assert list(seen) == list(SCREENS)
    for one in seen.values():
        require_clean(one)
    assert "RuntimeError: no such class" in seen["failing line"].text
    assert "rank 1" in seen["cause"].text
    assert "bit/s" in seen["preflight"].text


@pytest.mark.thorough
def test_html_names_exactly_what_its_screens_ask_for(busy: House):
    addresses = {"metrics": ("command", ("loss",)), "logs": ("command", ()), "jobs that failed": ("", ()),
                 "trials": ("sweep", ()), "trial curves": ("sweep", ()), "compare": ("", ())}  # fmt: skip
    steps = [{"name": name, "path": SCREENS[name][0], "wait": SCREENS[name][1], "checks": False} for name in addresses]
    for name, seen in drive(busy, steps).items():
        path, _, query = SCREENS[name][0].partition("?")
        kind, metrics = addresses[name]
        for one in first_requests(path, query, KnownJob(JobKind(kind), metrics) if kind else None).answers:
            place = one.partition("?")[0]
            assert {asked for asked in seen.asked if asked.partition("?")[0] == place} == {one}, name


@pytest.mark.thorough
def test_every_screen_fits_a_wide_window(busy: House):
    look = {"scheme": "dark", "size": "wide", "checks": False}
    steps = [{"name": name, "path": path, "wait": text, **look} for name, (path, text) in SCREENS.items()]
    seen = drive(busy, steps)
    assert list(seen) == list(SCREENS)
    for one in seen.values():
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


@pytest.mark.feature("X1")
def test_markup_in_names_logs_and_files_stays_text(tmp_path: Path):
    find_browser()
    with a_house(tmp_path) as house:
        quick = hostile(house)
        steps = [
            {"name": "jobs", "path": "/", "wait": "hostile", **quick},
            {"name": "logs", "path": "/jobs/hostile", "wait": "red link", **quick},
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
        assert seen["jobs"].transferred < 250_000
