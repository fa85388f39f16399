"""`compute check` and `plan --predict`: what a user reads, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from drumbeat.cli.commands.predict import SENT, PredictionOptions, show_prediction
from drumbeat.cli.job_options.file_or_command import RequestedJob
from drumbeat.model.api.computes import ComputeView, Machine
from drumbeat.model.api.jobs import JobView, PreviewView
from drumbeat.model.api.metrics import PointView, PrimaryView
from drumbeat.model.api.preflight import LinkView, NodePreflightView, PreflightView
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Plan
from tests.unit.cli.fake_server import FakeServer, Type, in_memory, typing_in
from tests.unit.cli.samples import NOON, a_job, after, sample

FAST, SLOW = 941_000_000, 20_000_000
NODES = tuple(
    NodePreflightView(node, f"m{node}", f"h{node}", "eth0", 3 * node, 9 << 30, 12, 0, "0123456789ab", 900)
    for node in range(3)
)
LINKS = (LinkView(1, 0, FAST, FAST, 210), LinkView(2, 0, SLOW, FAST, 220), LinkView(2, 1, -1, -1, -1, "no answer"))
CHECKED = PreflightView("pre-flight of 3 nodes: node 2 (m2) can't call node 1 (m1)", ("one",), NODES, LINKS)
MACHINES = tuple(sample(Machine, name=f"m{number}", cpus=4) for number in range(3))


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with in_memory() as fake:
        fake.known_computes = [sample(ComputeView, name="rack", machines=MACHINES)]
        fake.preview = sample(PreviewView, plan=Plan("j", "e", "pytorch", 2, 1, "true", ()))
        yield fake


@pytest.fixture
def drumbeat(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    (tmp_path / "job.yml").write_text("command: python train.py\n")
    return typing_in(tmp_path, monkeypatch)


@pytest.mark.feature("B3")
def test_check_prints_nodes_and_the_matrix_and_fails_where_something_is_wrong(server: FakeServer, drumbeat: Type):
    server.jobs["mnist-7f3a"] = a_job(state="completed", ended_at=after(9), preflight=CHECKED)
    done = drumbeat("compute", "check", "rack")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == CHECKED.sentence
    matrix = lines[lines.index("Bandwidth from the row's node to the column's") + 3 :]
    assert [row.split() for row in matrix[:3]] == [
        ["0", "·", "941", "Mbit/s", "941", "Mbit/s"],
        ["1", "941", "Mbit/s", "·", "no", "answer"],
        ["2", "20", "Mbit/s", "no", "answer", "·"],
    ]
    submitted = next(call for call in server.calls if call[0] == "submit")
    assert submitted[1]["resources"] == {"instance_count": 3}
    assert submitted[1]["drumbeat"]["preflight"] is True


@pytest.mark.feature("B3")
def test_check_that_finds_nothing_wrong_succeeds_and_prints_json_on_request(server: FakeServer, drumbeat: Type):
    good = replace(CHECKED, problems=(), links=LINKS[:1])
    server.jobs["mnist-7f3a"] = a_job(state="completed", ended_at=after(9), preflight=good)
    done = drumbeat("compute", "check", "rack", "--nodes", "2", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["links"][0]["out_bits_per_s"] == FAST


@pytest.mark.feature("B3")
def test_check_of_one_machine_is_refused(server: FakeServer, drumbeat: Type):
    server.known_computes = [sample(ComputeView, name="rack", machines=MACHINES[:1])]
    done = drumbeat("compute", "check", "rack")
    assert done.exit_code == 1
    assert "compute rack has 1 machine" in done.output


@pytest.mark.feature("B3")
def test_check_leaves_out_machines_that_are_kept_for_jobs_with_gpus(server: FakeServer, drumbeat: Type):
    server.jobs["mnist-7f3a"] = a_job(state="completed", ended_at=after(9), preflight=CHECKED)
    kept = tuple(replace(one, is_for_gpus=True) for one in MACHINES)
    for machines, count in (((*MACHINES[:2], kept[2]), 2), (kept, 3)):
        server.known_computes, server.calls = [sample(ComputeView, name="rack", machines=machines)], []
        drumbeat("compute", "check", "rack")
        submitted = next(call for call in server.calls if call[0] == "submit")
        assert submitted[1]["resources"] == {"instance_count": count}
    server.known_computes = [sample(ComputeView, name="rack", machines=(MACHINES[0], *kept[1:]))]
    assert "compute rack has 1 machine for jobs without GPUs" in drumbeat("compute", "check", "rack").output


@pytest.mark.feature("B2")
def test_prediction_from_given_numbers_starts_nothing(server: FakeServer, drumbeat: Type):
    words = ("--step", "400ms", "--data-wait", "40ms", "--gradients", "12.5MB", "--network", "1gbit/200us")
    done = drumbeat("plan", "job.yml", "--predict", "1,2,4", *words)
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1] in ("1", "2", "4")]
    assert [(row[0], row[5]) for row in rows[-3:]] == [("1", "100%"), ("2", "79%"), ("4", "72%")]
    assert not [call for call in server.calls if call[0] == "submit"]


@pytest.mark.feature("B2")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--step", "400ms"), "--step goes with --predict"),
        (("--predict", "two"), "'two' are no numbers of nodes"),
        (("--predict", "0,1"), "'0,1' are no numbers of nodes"),
        (("--predict", "2", "--step", "4 hours"), "'4 hours' is no time"),
        (("--predict", "2", "--results", "nothing.json"), "nothing.json has no run of one rank"),
    ],
)
def test_wrong_options_of_a_prediction_are_refused(drumbeat: Type, words: tuple[str, ...], says: str):
    done = drumbeat("plan", "job.yml", *words)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


@dataclass
class TrainingServer(FakeServer):
    """Its jobs log a loss every 0.5 s on one node and every 0.6 s on two, and two nodes send 10 MiB in a step."""

    is_silent: bool = False

    def submit(self, job: Path | dict[str, object], *, sets: Sequence[str] = (), name: str | None = None) -> JobView:
        self._called("submit", job, tuple(sets), name)
        nodes = job["resources"]["instance_count"]
        checked = replace(CHECKED, links=LINKS[:1]) if nodes > 1 else None
        primary = None if self.is_silent else PrimaryView("loss", 1.0, 99)
        state = "failed" if self.is_silent else "running"
        self.jobs[f"j{nodes}"] = a_job(
            name=f"j{nodes}", node_count=nodes, preflight=checked, primary=primary, state=state
        )
        return self.jobs[f"j{nodes}"]

    def points(self, name: str, metric: str, *, rank: int = 0) -> Iterator[PointView]:
        step_s = 0.5 if name == "j1" else 0.6
        if metric == SENT:
            return iter([PointView(n, 10 / step_s, NOON + timedelta(seconds=5.0 * n)) for n in range(20)])
        assert (metric, rank) == ("loss", 0)
        return iter([PointView(n, 1.0, NOON + timedelta(seconds=step_s * n)) for n in range(100)])


@pytest.mark.feature("B2")
def test_prediction_measures_the_job_on_one_node_and_on_two_and_cancels_it(capsys: pytest.CaptureFixture[str]):
    server = TrainingServer(preview=sample(PreviewView, plan=Plan("j", "e", "pytorch", 8, 1, "true", ())))
    chosen = RequestedJob({"command": "python train.py", "drumbeat": {"grace_s": 1}})
    show_prediction(server, chosen, PredictionOptions("1,2,8"), as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["profile"]["step_s"] == pytest.approx(0.5)
    assert found["profile"]["gradient_bytes"] == pytest.approx(0.95 * 10 * (1 << 20))
    assert [one["step_s"] for one in found["predictions"]][:2] == pytest.approx([0.5, 0.6])
    assert found["sources"]["overlap"] == "by a step of two nodes, 600.0 ms"
    assert [call[1] for call in server.calls if call[0] == "cancel"] == ["j1", "j2"]
    submitted = [call[1] for call in server.calls if call[0] == "submit"]
    assert submitted[1]["drumbeat"]["preflight"] is True
    assert submitted[1]["drumbeat"]["grace_s"] == 1


@pytest.mark.feature("B2")
def test_job_that_logs_no_steps_is_refused_with_the_option_that_helps():
    server = TrainingServer(
        preview=sample(PreviewView, plan=Plan("j", "e", "pytorch", 8, 1, "true", ())), is_silent=True
    )
    with pytest.raises(RefusedError, match="logged too few steps") as caught:
        show_prediction(server, RequestedJob({"command": "true"}), PredictionOptions("2"), as_json=True)
    assert "--step 420ms" in caught.value.fix
