"""Conditions of jobs on their nodes: what ends early ends well, once, also while the server is away."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from drumbeat.model.api.jobs import JobWithEvents
from tests.mail_server import open_mailbox

from .house import House, a_house, until

pytestmark = [pytest.mark.feature("M13"), pytest.mark.timeout(300)]

LOGS_AND_SAVES = """
import os, pathlib, signal, sys, time
import drumbeat
rank, where = int(os.environ["RANK"]), pathlib.Path(sys.argv[1])
step = 0
def save(*_):
    kept = pathlib.Path(os.environ["DRUMBEAT_CHECKPOINT_DIR"])
    (kept / f"{rank}.txt").write_text(str(step))
    pathlib.Path("outputs").mkdir(exist_ok=True)
    pathlib.Path("outputs", f"model-{rank}.txt").write_text(str(step))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
(where / f"begun-{rank}").touch()
while not (where / "go").exists():
    time.sleep(0.02)
while True:
    step += 1
    if rank == 0:
        drumbeat.log(step=step, **{"val/loss": max(0.31, 1 - step * 0.1)})
    if rank == 3:
        drumbeat.log(step=step, loss=float("nan") if step >= 6 else 1 / step)
    time.sleep(0.05)
"""


def submit(house: House, folder: Path, **conditions: object) -> str:
    """Submits a job of two ranks on each of two nodes."""
    house.script(LOGS_AND_SAVES)
    keys = {"environment": "current", "grace_s": 20, "max_retries": 3, **conditions}
    file = house.job_file(
        code=".", command=f'"python t.py {folder}"', resources="{instance_count: 2}",
        distribution="{type: pytorch, process_count_per_instance: 2}", drumbeat=json.dumps(keys),
    )  # fmt: skip
    return house.client.submit(file).name


def await_ranks(folder: Path) -> None:
    """Waits until each rank runs, and waits for `go`."""
    until(lambda: all((folder / f"begun-{rank}").exists() for rank in range(4)), 120, "the ranks run")


def check_ended_early(house: House, job: JobWithEvents | None, sentence: str) -> None:
    """Checks that the job has ended well and once, with what its ranks saved when they were stopped."""
    assert job is not None
    assert (job.state, job.reason, job.attempt, job.round) == ("completed", "stopped_early", 1, 1), job.sentence
    assert job.sentence.startswith(f"stopped early: {sentence}")
    assert not job.failures
    assert [entry.state for entry in job.story].count("completed") == 1
    checkpoints = house.home / "jobs" / job.name / "checkpoints"
    assert {path.name for path in checkpoints.glob("*.txt")} == {f"{rank}.txt" for rank in range(4)}
    shown = house.run("show", job.name).stdout
    assert "stopped early" in shown


def test_job_stops_at_nan_of_any_rank_with_what_it_saved(tmp_path: Path):
    with a_house(tmp_path) as house:
        name = submit(house, tmp_path, stop_when=["metric.loss = nan"])
        await_ranks(tmp_path)
        (tmp_path / "go").touch()
        check_ended_early(house, house.client.wait(name, 120), "loss is not a number (at step 6, rank 3)")


@pytest.mark.thorough
def test_job_stops_once_when_no_better_while_its_server_is_away(tmp_path: Path):
    condition = {"metric": "val/loss", "no_better_for": 5}
    with a_house(tmp_path) as house:
        name = submit(house, tmp_path, stop_when=[condition])
        await_ranks(tmp_path)
        house.server().kill()
        (tmp_path / "go").touch()
        kept = house.home / "jobs" / name / "checkpoints"
        until(lambda: {"0.txt", "1.txt"} == {path.name for path in kept.glob("*.txt")}, 90, "node 0 stops its ranks")
        ended = house.client.wait(name, 120)
        check_ended_early(house, ended, "val/loss no better for 5 reports (best 0.31 at step 7)")


class Webhook:
    """Receives notices on this machine."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                owner.texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/hook"


def test_condition_that_notifies_reaches_a_webhook_and_mail_once_for_each_crossing(tmp_path: Path):
    crossings = (
        "import drumbeat, time\n"
        "for step, loss in enumerate([3, 2, 0.5, 0.4, 0.6, 2, 3, 0.3, 0.2]):\n"
        "    drumbeat.log(step=step, loss=loss)\n"
        "    time.sleep(1)\n"
    )
    webhook = Webhook()
    with a_house(tmp_path) as house, open_mailbox() as mailbox:
        house.client.create_notice_target({"name": "chat", "type": "webhook", "credentials": {"url": webhook.url}})
        house.client.create_notice_target({
            "name": "mail", "type": "mail", "host": "127.0.0.1", "port": mailbox.port, "security": "none",
            "sender": "drum@example.org", "to": ["team@example.org"],
        })  # fmt: skip
        house.script(crossings)
        keys = {"environment": "current", "notify": ["chat", "ada@example.org"], "notify_on": ["failed"]}
        file = house.job_file(
            code=".", command="python t.py",
            drumbeat=json.dumps({**keys, "notify_when": ["metric.loss < 1"]}),
        )  # fmt: skip
        job = house.client.wait(house.client.submit(file).name, 120)
        assert job is not None
        assert job.state == "completed", job.sentence
        until(lambda: len(webhook.texts) == 2, 30, "two notices come")
        told = [entry.sentence for entry in job.story if entry.sentence.startswith("notify_when")]
        assert told == [
            "notify_when: loss is 0.5, below 1 (at step 2, rank 0)",
            "notify_when: loss is 0.3, below 1 (at step 7, rank 0)",
        ]
        for sentence in told:
            assert any(sentence.removeprefix("notify_when: ").replace("<", "&lt;") in text for text in webhook.texts)
        until(lambda: len(mailbox.mails) == 2, 30, "two mails come")
        for sentence, (receivers, mail) in zip(told, mailbox.mails, strict=True):
            assert receivers == ["ada@example.org"]
            assert sentence.removeprefix("notify_when: ") in str(mail.get_payload())
    webhook.http.shutdown()
    webhook.http.server_close()


def test_idle_job_is_warned_of_and_gives_its_slots_back(tmp_path: Path):
    with a_house(tmp_path) as house:
        house.script("import time\ntime.sleep(600)\n")
        file = house.job_file(
            code=".", command=f'"{sys.executable} t.py"',
            drumbeat=json.dumps({"environment": "current", "idle_after": "10s"}),
        )  # fmt: skip
        job = house.client.wait(house.client.submit(file).name, 120)
        assert job is not None
        assert (job.state, job.reason) == ("completed", "stopped_early"), job.sentence
        told = [entry.sentence for entry in job.story]
        assert any("it ends in 2 s unless it is used" in one for one in told), told
        assert "no user has sent anything" in job.sentence


FLAT = """
import os, time
import drumbeat
level = float(os.environ.get("AZUREML_SWEEP_level", "0.5"))
for step in range(3000):
    drumbeat.log(accuracy=level, step=step)
    time.sleep(0.05)
"""
SWEEP = """
type: sweep
name: flat
trial: {code: ., command: python t.py}
sampling_algorithm: grid
search_space: {level: {type: choice, values: [0.5, 0.75]}}
objective: {goal: maximize, primary_metric: accuracy}
limits: {max_total_trials: 2, max_concurrent_trials: 1}
drumbeat: {environment: current, grace_s: 2, stop_when: [{metric: accuracy, no_better_for: 4}]}
"""
PIPELINE = """
type: pipeline
name: line
drumbeat: {environment: current, grace_s: 2}
jobs:
  train:
    command: python t.py ${{outputs.model}}
    code: .
    outputs: {model: {type: uri_folder}}
    drumbeat: {stop_when: [{metric: accuracy, no_better_for: 4}]}
  score:
    command: grep kept ${{inputs.model}}/model.txt
    inputs: {model: "${{parent.jobs.train.outputs.model}}"}
"""


def test_trials_that_stop_early_have_completed_with_their_best_value(tmp_path: Path):
    with a_house(tmp_path) as house:
        house.script(FLAT)
        file = house.folder / "job" / "sweep.yml"
        file.write_text(SWEEP)
        done = house.run("run", file)
        assert done.returncode == 0, done.stdout + done.stderr
        trials = house.client.sweep("flat").trials
        assert [one.state for one in trials] == ["completed", "completed"]
        assert house.client.best("flat").value == 0.75
        assert house.client.get("flat_1").sentence.startswith(
            "stopped early: accuracy no better for 4 reports (best 0.75"
        )


def test_pipeline_goes_on_with_what_a_step_has_kept_that_stopped_early(tmp_path: Path):
    stops_well = FLAT.replace(
        "import os, time",
        "import os, pathlib, signal, sys, time\n"
        "def keep(*_):\n"
        "    pathlib.Path(sys.argv[1], 'model.txt').write_text('kept')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, keep)",
    )
    with a_house(tmp_path) as house:
        house.script(stops_well)
        file = house.folder / "job" / "pipeline.yml"
        file.write_text(PIPELINE)
        done = house.run("run", file)
        assert done.returncode == 0, done.stdout + done.stderr
        assert [one.state for one in house.client.pipeline("line").steps] == ["completed", "completed"]
