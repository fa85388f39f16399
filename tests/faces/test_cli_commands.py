"""The commands as a user types them, against a server in memory."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drumbeat.cli.main import app
from drumbeat.cli.terminal.failures import Exit
from drumbeat.cli.terminal.job_names import MAX_JOBS_SEARCHED
from drumbeat.client.discovery import here
from drumbeat.model.api.computes import ComputeView
from drumbeat.model.api.jobs import ExitView, FailureView, NodeView, ObservedView, OutputView, VerdictView
from drumbeat.model.api.outlooks import HolderView, OutlookView, StartView
from drumbeat.model.api.server import AgentListenerView
from drumbeat.model.errors import UnreachableError
from tests.unit.cli.fake_server import FakeServer, Type
from tests.unit.cli.samples import NOON, a_failed_job, a_job, after, event_line, sample
from tests.unit.cli.test_cli_planview import preview


# --- plan -------------------------------------------------------------------------------------------------------
@pytest.mark.feature("J4")
def test_plan_prints_what_would_run_and_submits_nothing(drumbeat: Type, server: FakeServer):
    server.preview = preview()
    shown = drumbeat("plan", "job.yml", "--set", "inputs.epochs=3", "--set", "name=x")
    assert shown.exit_code == 0
    assert server.calls == [("plan", "job.yml", ("inputs.epochs=3", "name=x"), None)]
    for part in ("2 nodes × 2 per node = 4 ranks", "local rank", "OMP_NUM_THREADS=1", "would start at once"):
        assert part in shown.stdout
    assert "SLURM_*" not in shown.stdout
    assert "SLURM_*" in drumbeat("plan", "job.yml", "--verbose").stdout


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_plan_of_a_job_that_could_never_start_ends_as_a_refusal(
    drumbeat: Type, server: FakeServer, options: tuple[str, ...]
):
    server.preview = replace(preview(), never=True)
    assert drumbeat("plan", "job.yml", *options).exit_code == 1


@pytest.mark.feature("J4")
def test_plan_as_json_is_the_servers_own(drumbeat: Type, server: FakeServer):
    server.preview = preview()
    told = json.loads(drumbeat("plan", "job.yml", "--json").stdout)
    assert told["plan"]["job"] == "mnist-7f3a"
    assert [process["rank"] for process in told["processes"]] == [0, 1, 2, 3]


def test_job_yml_is_the_default_file(drumbeat: Type, server: FakeServer, tmp_path: Path):
    server.preview = preview()
    (tmp_path / "job.yml").write_text("command: true\n")
    assert drumbeat("plan").exit_code == 0
    assert server.calls[0][1] == "job.yml"


@pytest.mark.parametrize("command", ["plan", "run"])
def test_missing_job_file_is_refused(drumbeat: Type, server: FakeServer, command: str, tmp_path: Path):
    shown = drumbeat(command)
    assert shown.exit_code == 2
    assert shown.stderr == (
        "error: no job file was named, and this folder has no job.yml\n"
        f"  at {tmp_path}\n"
        "  → Name one: drumbeat run path/to/job.yml. Or run a command without one: drumbeat run -- python train.py\n"
    )
    assert server.calls == []


@pytest.mark.parametrize("command", ["plan", "run"])
def test_folder_with_a_job_file_is_refused_with_what_to_type(
    drumbeat: Type, server: FakeServer, tmp_path: Path, command: str
):
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello" / "job.yml").write_text("command: true\n")
    told = drumbeat(command, "hello").stderr
    assert told == "error: this is a folder\n  at hello\n  → Name the file in it: drumbeat run hello/job.yml\n"
    assert server.calls == []


# --- list, show, and how a job is named ---------------------------------------------------------------------------
def test_list_shows_the_newest_first_with_what_holds_them_up(drumbeat: Type, server: FakeServer):
    old, new = a_failed_job(), a_job(name="cifar-01ab", submitted_at=after(60))
    server.jobs = {job.name: job for job in (old, new)}
    lines = drumbeat("list").stdout.splitlines()
    assert [line.split()[0] for line in lines[2:] if not line.startswith(" ")] == ["cifar-01ab", "mnist-7f3a"]
    assert "4 ranks run on" in lines[2]
    assert "rank 3 on node 1" in lines[3]


def test_waiting_job_is_told_with_its_place_its_holders_and_when_it_may_start(
    drumbeat: Type, server: FakeServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "200")
    now = datetime.now(UTC)
    start = StartView(
        "mnist-7f3a", "lab", 1, 3, now + timedelta(minutes=14), None, "starts in about 14 min, by its runs"
    )
    since = now - timedelta(minutes=50)
    holder = HolderView("live-2", "ada", 2, 8, 1, since, 1200, 2000, None, None, "has no time limit")
    server.jobs = {"mnist-7f3a": a_job(state="queued", started_at=None)}
    server.outlooks = {"mnist-7f3a": OutlookView("mnist-7f3a", start, (holder,), "2 nodes would start now")}
    assert "queued ≈ 14 min" in drumbeat("list").stdout
    shown = " ".join(drumbeat("show", "mnist-7f3a").stdout.split())
    for word in (
        "1 of 3 in the queue of lab",
        "start in about 14 min, by its runs",
        "2 nodes would start now",
        "live-2 ada 2 nodes, 8 slots, 1 GPU",
    ):
        assert word in shown
    for word in ("50m 0", "1,200 of 2,000 (60 %)", "none", "unknown: has no time limit"):
        assert word in shown


def test_running_job_is_told_with_its_steps_and_its_end(drumbeat: Type, server: FakeServer):
    now = datetime.now(UTC)
    own = HolderView(
        "mnist-7f3a", "", 1, 1, 0, now, 1200, 2000, None, now + timedelta(minutes=7), "at step 1,200 of 2,000"
    )
    server.jobs = {"mnist-7f3a": a_job()}
    server.outlooks = {"mnist-7f3a": OutlookView("mnist-7f3a", own=own)}
    shown = " ".join(drumbeat("show", "mnist-7f3a").stdout.split())
    assert "step 1,200 of 2,000 (60 %) end in about 7 min, at step 1,200 of 2,000" in shown


def test_waiting_job_without_an_estimate_has_no_number_in_the_list(drumbeat: Type, server: FakeServer):
    start = StartView("mnist-7f3a", "lab", 1, 1, None, None, "unknown: live-2 has no time limit and no earlier runs")
    server.jobs = {"mnist-7f3a": a_job(state="queued", started_at=None)}
    server.outlooks = {"mnist-7f3a": OutlookView("mnist-7f3a", start)}
    assert "≈" not in drumbeat("list").stdout
    assert "unknown: live-2 has no time limit" in " ".join(drumbeat("show", "mnist-7f3a").stdout.split())


@pytest.mark.parametrize("columns", ["80", "100", "160"])
@pytest.mark.parametrize("command", [("list",), ("top", "--once")])
def test_list_has_one_line_a_job_and_show_the_whole_reason(
    drumbeat: Type, server: FakeServer, monkeypatch: pytest.MonkeyPatch, columns: str, command: tuple[str, ...]
):
    monkeypatch.setenv("COLUMNS", columns)
    reason = "it waits for the store that " + "does not answer and " * 8 + "for\ntwo lines"
    server.jobs = {name: a_job(name=name, sentence=reason) for name in ("cifar-01ab", "mnist-7f3a")}
    lines = drumbeat(*command).stdout.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["cifar-01ab", "mnist-7f3a"]
    assert all(len(line) <= int(columns) and line.endswith("…") for line in lines[2:])
    shown = " ".join(drumbeat("show", "mnist-7f3a").stdout.split())
    assert " ".join(reason.split()) in shown


def test_show_has_the_stage_and_shard_of_each_rank(drumbeat: Type, server: FakeServer):
    server.jobs["mnist-7f3a"] = a_job(mesh={"pp": 2, "dp": 2})
    shown = drumbeat("show", "mnist-7f3a").stdout
    assert "2 pipeline stages (pp) × 2 data shards (dp)" in shown
    rows = [line.split(maxsplit=2) for line in shown.splitlines() if "stage" in line and "shard " in line]
    assert ["1", "2", "stage 1, shard 0"] in [[part.strip() for part in row] for row in rows]


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        ("160", "job state experiment ranks submitted ran why"),
        ("80", "job state ranks submitted why"),
        ("40", "job state"),
        ("16", "job"),
    ],
)
@pytest.mark.parametrize("command", [("list",), ("top", "--once")])
def test_a_narrow_terminal_shows_fewer_columns_and_breaks_no_word(
    drumbeat: Type, server: FakeServer, monkeypatch: pytest.MonkeyPatch, columns: str, titles: str, command: tuple[str]
):
    monkeypatch.setenv("COLUMNS", columns)
    began = datetime.now(UTC) - timedelta(days=200, hours=15, minutes=30)  # As wide at any time of the day.
    sentence = "waiting for the slots that others have"
    server.jobs["mnist-7f3a"] = a_job(sentence=sentence, submitted_at=began, started_at=began)
    lines = drumbeat(*command).stdout.splitlines()
    assert command != ("list",) or lines[0].split() == titles.split()
    assert all(len(line) <= int(columns) for line in lines)
    words = " ".join(lines[2:]).split()
    assert "mnist-7f3a" in words
    assert "slots" in words or "why" not in lines[0]


def test_list_asks_for_what_was_asked_for(drumbeat: Type, server: FakeServer):
    shown = drumbeat("list", "--state", "failed", "--experiment", "e", "--all", "--limit", 5)
    assert shown.stdout == "no jobs\n"
    assert server.calls == [("list", "failed", "e", True, 5)]


def test_list_takes_a_parent_as_jobs_are_named_everywhere(drumbeat: Type, server: FakeServer):
    server.jobs["mnist-7f3a"] = a_job()
    for typed in ("@last", "mnist", "mnist-7f3a"):
        drumbeat("list", "--parent", typed)
        assert server.calls[-1] == ("list", None, None, False, 50, "mnist-7f3a")
    wrong = drumbeat("list", "--parent", "nonexist")
    assert wrong.exit_code != 0
    assert "nonexist" in wrong.stderr


def test_list_as_json(drumbeat: Type, server: FakeServer):
    server.jobs["a"] = a_job(name="a", sentence="\x1b[2J")
    shown = drumbeat("list", "--json").stdout
    assert json.loads(shown)[0]["name"] == "a"
    assert "\x1b" not in shown


@pytest.mark.feature("F1")
def test_show_tells_everything(drumbeat: Type, server: FakeServer):
    failed = a_failed_job()
    server.jobs[failed.name] = a_job(**{**vars(failed), "story": (event_line(1, "queued", "first in line"),)})
    text = drumbeat("show", "mnist-7f3a").stdout
    for part in (
        "2 nodes × 2 per node = 4 ranks",
        "rank 3, node 1",
        "Check inputs.data.",
        "│ ValueError: no data\\x1b[2J",
    ):
        assert part in text
    assert "first in line" in text


def test_show_of_an_ended_job_leaves_out_the_engines_state(drumbeat: Type, server: FakeServer):
    running = a_job(observed=ObservedView("running", NOON), verdict=VerdictView("finished", "4 ranks ended"))
    server.jobs["mnist-7f3a"] = running
    assert "engine says" in drumbeat("show", "mnist").stdout
    server.jobs["mnist-7f3a"] = replace(running, state="completed", ended_at=after(9))
    assert "engine says" not in drumbeat("show", "mnist").stdout


@pytest.mark.parametrize(
    ("state", "reason", "title"),
    [
        ("finalizing", "finished", ""),
        ("completed", "finished", ""),
        ("stopping", "rank_failed", "Why it is being stopped"),
        ("finalizing", "rank_failed", "Why it ended"),
        ("failed", "results_lost", "Why it ended"),
    ],
)
def test_show_has_a_cause_only_for_failures(drumbeat: Type, server: FakeServer, state: str, reason: str, title: str):
    server.jobs["mnist-7f3a"] = a_job(state=state, verdict=VerdictView(reason, "so it is"))
    titles = [line for line in drumbeat("show", "mnist").stdout.splitlines() if line.startswith("Why")]
    assert titles == [title] * bool(title)


def test_show_tells_of_rounds_that_failed_before(drumbeat: Type, server: FakeServer):
    failure = FailureView(1, 1, after(3), VerdictView("rank_killed", "rank 2 got SIGKILL"))
    server.jobs["mnist-7f3a"] = a_job(round=2, failures=(failure,), nodes=NODES)
    text = drumbeat("show", "mnist").stdout
    assert "Rounds that failed" in text
    assert "rank 2 got SIGKILL" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["1", "gpu-1", "vm", "10.0.0.1", "lost"] in rows
    assert rows.index(["3", "1", "SIGKILL", "+0.00s"]) < rows.index(["0", "0", "exit", "code", "0", "+1.50s"])


NODES = (
    NodeView(0, "gpu-0", "vm", "10.0.0.0", "ended", exits=(ExitView(0, 0, None, 11.5),)),
    NodeView(1, "gpu-1", "vm", "10.0.0.1", "running", lost=True, exits=(ExitView(3, None, 9, 10.0),)),
)


@pytest.mark.parametrize("typed", ["mnist-7f3a", "mnist", "m", "@last"])
def test_a_job_is_known_by_name_beginning_or_being_the_last(drumbeat: Type, server: FakeServer, typed: str):
    server.jobs = {
        "mnist-7f3a": a_job(submitted_at=after(60)),
        "cifar-01ab": a_job(name="cifar-01ab"),
    }
    assert json.loads(drumbeat("show", typed, "--json").stdout)["name"] == "mnist-7f3a"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("mnist", "error: 2 jobs begin with 'mnist': mnist-1, mnist-2\n  → Type more of the name.\n"),
        ("mnits-1", "error: no job named 'mnits-1', and none whose name starts with it\n  → The nearest is mnist-1.\n"),
        ("", "error: no job named '', and none whose name starts with it\n  → See them with: drumbeat list --all\n"),
    ],
)
def test_a_job_that_is_not_known_or_not_one(drumbeat: Type, server: FakeServer, typed: str, said: str):
    server.jobs = {name: a_job(name=name, submitted_at=after(-int(name[-1]))) for name in ("mnist-1", "mnist-2")}
    shown = drumbeat("show", typed)
    assert (shown.exit_code, shown.stderr) == (1, said)


TRIALS = ("tune-1_0", "tune-1_1", "mnist-1_0")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("tune", "tune-1"), ("tune-1", "tune-1"), ("mnist-1_", "mnist-1_0"), ("tune-1_1", "tune-1_1"),
        ("mnist-2_se", "mnist-2_search"),
    ],
)  # fmt: skip
def test_beginning_of_a_sweeps_name_is_the_sweep_and_not_its_trials(
    drumbeat: Type, server: FakeServer, typed: str, name: str
):
    server.jobs = {one: a_job(name=one) for one in ("tune-1", "mnist-1", "mnist-2")}
    later = (*TRIALS, "mnist-2_search", "mnist-2_search_0")
    server.jobs |= {one: a_job(name=one, parent=one.rpartition("_")[0], submitted_at=after(60)) for one in later}
    assert json.loads(drumbeat("show", typed, "--json").stdout)["name"] == name


def test_beginning_that_several_trials_have_is_refused_with_their_names(drumbeat: Type, server: FakeServer):
    server.jobs = {"tune-1": a_job(name="tune-1")}
    server.jobs |= {one: a_job(name=one, parent="tune-1") for one in TRIALS[:2]}
    said = "error: 2 jobs begin with 'tune-1_': tune-1_0, tune-1_1\n  → Type more of the name.\n"
    assert drumbeat("show", "tune-1_").stderr == said


def test_beginning_is_found_behind_a_thousand_trials_of_a_later_sweep(drumbeat: Type, server: FakeServer):
    server.jobs = {one: a_job(name=one) for one in ("tune-1", "mnist-1")}
    trials = [a_job(name=f"tune-1_{n}", parent="tune-1", submitted_at=after(60)) for n in range(MAX_JOBS_SEARCHED)]
    server.jobs |= {one.name: one for one in trials}
    assert json.loads(drumbeat("show", "mnist", "--json").stdout)["name"] == "mnist-1"


def test_last_job_is_refused_without_jobs(drumbeat: Type):
    assert drumbeat("show", "@last").stderr.startswith("error: there is no job yet\n")


# --- cancel, wait, archive ----------------------------------------------------------------------------------------
@pytest.mark.feature("F7")
def test_cancel(drumbeat: Type, server: FakeServer):
    server.jobs["mnist-7f3a"] = a_job()
    assert drumbeat("cancel", "mnist").stdout == "mnist-7f3a: stopping; a person asked for it\n"


@pytest.mark.feature("F7")
def test_cancel_escapes_control_characters_of_the_job(drumbeat: Type, server: FakeServer):
    server.jobs["mnist-7f3a"] = a_job()
    server.cancel_sentence = "\x1b[2J"
    assert drumbeat("cancel", "mnist").stdout == "mnist-7f3a: stopping; \\x1b[2J\n"


@pytest.mark.parametrize(("job", "code"), [(a_failed_job(), 7), (a_job(), 3)])
def test_wait_ends_with_the_jobs_exit_code_or_3(drumbeat: Type, server: FakeServer, job: object, code: int):
    server.jobs["mnist-7f3a"] = job  # pyright: ignore[reportArgumentType]
    shown = drumbeat("wait", "mnist", "--timeout", 2)
    assert shown.exit_code == code
    assert ("wait", "mnist-7f3a", 2.0) in server.calls


def test_wait_whose_time_is_up_ends_with_3_though_no_server_answers(
    drumbeat: Type, server: FakeServer, monkeypatch: pytest.MonkeyPatch
):
    server.jobs["mnist-7f3a"] = a_job()

    def waited(_name: str, _timeout_s: float | None = None) -> None:
        server.error = UnreachableError("no server answers", where="http://127.0.0.1:1")

    monkeypatch.setattr(server, "wait", waited)
    shown = drumbeat("wait", "mnist", "--timeout", 2)
    assert (shown.exit_code, shown.stderr) == (3, "")
    assert shown.stdout == "mnist-7f3a: isn't over after 2 s, as far as is known: no server answers\n"


@pytest.mark.feature("D3")
def test_wait_names_an_unpublished_output(drumbeat: Type, server: FakeServer):
    refused = sample(OutputView, "model", "failed", "s3://b/p", problem="no permission to write")
    server.jobs["mnist-7f3a"] = replace(a_job(state="completed", exit_code=0), outputs=(refused,))
    shown = drumbeat("wait", "mnist")
    assert shown.exit_code == 1
    assert shown.stdout == "mnist-7f3a: completed; output model isn't in its place: no permission to write\n"


@pytest.mark.parametrize("command", ["archive", "restore"])
def test_archive_and_restore(drumbeat: Type, server: FakeServer, command: str):
    server.jobs["mnist-7f3a"] = a_job()
    assert drumbeat(command, "mnist").exit_code == 0
    assert server.calls[-1] == (command, "mnist-7f3a")


# --- aliases, server, top, version --------------------------------------------------------------------------------
@pytest.mark.feature("J1")
def test_aliases_are_set_listed_and_removed(drumbeat: Type, server: FakeServer):
    assert "no aliases" in drumbeat("alias", "list").stdout
    server.known_computes = [sample(ComputeView, "local", "local", ())]
    assert drumbeat("alias", "set", "compute", "gpu-cluster", "local").stdout == "compute gpu-cluster now means local\n"
    assert drumbeat("alias", "list").stdout.split()[-3:] == ["compute", "gpu-cluster", "local"]
    assert drumbeat("alias", "remove", "compute", "gpu-cluster").exit_code == 0
    assert drumbeat("alias", "remove", "compute", "gpu-cluster").stderr == "error: no alias gpu-cluster\n"
    assert drumbeat("alias", "set", "colour", "a", "b").exit_code == 2


@pytest.mark.parametrize(
    ("kind", "target", "there_is"),
    [("compute", "nowhere", "lab"), ("environment", "torch", "current"), ("instance_type", "tpu", "cpu, gpu")],
)
def test_alias_of_a_missing_target_has_a_note(
    drumbeat: Type, server: FakeServer, kind: str, target: str, there_is: str
):
    server.known_computes = [sample(ComputeView, "lab", "netlab", ())]
    shown = drumbeat("alias", "set", kind, "x", target)
    assert (shown.exit_code, shown.stdout) == (0, f"{kind} x now means {target}\n")
    assert shown.stderr.startswith(f"note: there is no {kind.replace('_', ' ')} {target} yet; there is {there_is}")
    assert drumbeat("alias", "set", kind, "x", there_is.partition(",")[0]).stderr == ""


def test_server_status_has_the_address_of_remote_agents(drumbeat: Type, server: FakeServer):
    ends = datetime(2026, 12, 21, tzinfo=UTC)
    server.doors = (AgentListenerView("10.0.0.1", 4713, ends), AgentListenerView("fd00::1", 4713, ends))
    told = drumbeat("server", "status").stdout
    assert "  agents       https://10.0.0.1:4713, certificate until 2026-12-21\n" in told
    assert "  agents       https://[fd00::1]:4713, certificate until 2026-12-21\n" in told
    assert "beside" not in told
    server.others = ("http://127.0.0.1:7272",)
    beside = "  beside       http://127.0.0.1:7272, which takes over when the active server ends\n"
    assert beside in drumbeat("server", "status").stdout


def test_server_status_and_stop(drumbeat: Type, server: FakeServer):
    assert "running at http://127.0.0.1:7171 on laptop, process 4711" in drumbeat("server", "status").stdout
    assert drumbeat("server", "stop", "--force").exit_code == 0
    assert server.calls[-1] == ("stop", True)
    server.error = UnreachableError("no server is running")
    assert drumbeat("server", "stop").exit_code == 0
    assert drumbeat("server", "status").exit_code == 1


@pytest.mark.parametrize(("option", "after", "row"), [("0", None, "never by itself"), ("60", 60, "after 1m")])
def test_server_start_gives_a_running_server_another_idle_time(
    drumbeat: Type, server: FakeServer, option: str, after: int | None, row: str
):
    shown = drumbeat("server", "start", "--idle-stop", option).stdout
    assert ("set_idle_stop", after and timedelta(seconds=after)) in server.calls
    assert f"  stops        {row}" in shown


def test_server_start_names_variables_that_the_running_server_lacks(
    drumbeat: Type, server: FakeServer, monkeypatch: pytest.MonkeyPatch
):
    machine = here()
    monkeypatch.setenv("DRUMBEAT_LOG_FORMAT", "json")
    for name in ("DRUMBEAT_OTLP", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        server.host, server.boot_id, server.pid = machine.host, machine.boot_id, process.pid
        assert drumbeat("server", "start").stderr == ""
        monkeypatch.setenv("DRUMBEAT_OTLP", "http://collector:4318")
        assert drumbeat("server", "start").stderr.startswith("note: DRUMBEAT_OTLP has no effect: ")
        monkeypatch.setenv("SSL_CERT_FILE", "trusted.pem")
        assert drumbeat("server", "start").stderr == (
            "note: SSL_CERT_FILE and DRUMBEAT_OTLP have no effect: the running server was started without these values."
            " Restart it: `drumbeat server stop` (with `--force` while jobs are unfinished: they continue), "
            "then this command again.\n"
        )
        server.boot_id = "another"
        assert drumbeat("server", "start").stderr == ""
    finally:
        process.communicate(b"\n")


@pytest.mark.feature("M4")
def test_top_once(drumbeat: Type, server: FakeServer):
    server.jobs = {"mnist-7f3a": a_job(submitted_at=after(-9)), "old-1": a_job(name="old-1", state="completed")}
    server.contents = {"logs/1.1/0/0.log": b"x" * 2048, "outputs/x": b"y"}
    lines = drumbeat("top", "--once").stdout.splitlines()
    assert [line.split()[:3] for line in lines[2:]] == [["mnist-7f3a", "running", "4"], ["old-1", "completed", "4"]]
    assert "2.0 KiB" in lines[2]


def test_top_shows_a_running_job_that_is_older_than_many_ended_ones(drumbeat: Type, server: FakeServer):
    ended = {f"new-{n}": a_job(name=f"new-{n}", state="completed", submitted_at=after(n)) for n in range(40)}
    server.jobs = {**ended, "mnist-7f3a": a_job(submitted_at=after(-9))}
    lines = drumbeat("top", "--once").stdout.splitlines()
    assert lines[2].startswith("mnist-7f3a")
    assert len(lines) == 32


@pytest.mark.parametrize("words", [("version",), ("--version",)])
def test_version(drumbeat: Type, words: tuple[str, ...]):
    assert drumbeat(*words).stdout.startswith("drumbeat ")


SLOW = ("httpx", "pydantic", "rich", "ruamel", "drumbeat.jobfile")


def test_slow_modules_are_imported_only_by_commands_that_need_them():
    code = f"""
import sys, typer
from drumbeat.cli.main import app
list(typer.main.get_command(app).commands.values())
print([name for name in {SLOW} if name in sys.modules])
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"


COSTLY = ("rich", "pygments", "click", "packaging", "drumbeat.core", "drumbeat.jobfile.sweeping")


def test_submitted_job_loads_no_other_command_and_nothing_that_draws(tmp_path: Path):
    (tmp_path / "job.yml").write_text("command: 'true'\ncode: .\n")
    code = f"""
import sys
from drumbeat.cli.main import main
sys.argv[1:] = ["run", "job.yml"]
try:
    main()
except SystemExit as ended:
    commands = sorted(name for name in sys.modules if name.startswith("drumbeat.cli.commands."))
    print(ended.code, commands, [name for name in {COSTLY} if name in sys.modules])
"""
    # Port 1: nobody answers, but everything before the request was sent has been done.
    where = {"DRUMBEAT_SERVER": "http://127.0.0.1:1", "DRUMBEAT_TOKEN": "none", "DRUMBEAT_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=where, capture_output=True, text=True, check=True
    )
    commands = ["drumbeat.cli.commands.run", "drumbeat.cli.commands.version"]
    assert done.stdout == f"{int(Exit.UNREACHABLE)} {commands} []\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_files_may_be_closed(tmp_path: Path, closed: str):
    program = Path(sys.executable).with_name("drumbeat")
    ended = subprocess.run(
        ["/bin/sh", "-c", f'"{program}" server status {closed}'],
        env={"DRUMBEAT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr


@pytest.mark.feature("M2")
def test_mlflow_server_is_named_for_a_running_server_and_given_up_again(drumbeat: Type, server: FakeServer):
    row = "  copies       all runs to the MLflow server http://x\n"
    assert row in drumbeat("server", "start", "--mlflow", "http://x").stdout
    assert row in drumbeat("server", "status").stdout
    assert "copies" not in drumbeat("server", "start", "--mlflow", "off").stdout
    named = [call for call in server.calls if call[0] == "set_mlflow_server"]
    assert named == [("set_mlflow_server", "http://x"), ("set_mlflow_server", None)]


# --- labels -----------------------------------------------------------------------------------------------------
@pytest.mark.feature("M16")
def test_note_is_printed_written_from_an_argument_a_file_or_standard_input_and_removed(
    drumbeat: Type, server: FakeServer, tmp_path: Path
):
    server.jobs["cifar-7f3a"] = a_job(name="cifar-7f3a", description="first line\nsecond \x1b[2J line")
    assert drumbeat("note", "cifar").stdout == "first line\nsecond \\x1b[2J line\n"
    assert drumbeat("note", "cifar", "**good**").stdout == "cifar-7f3a: note written\n"
    assert server.jobs["cifar-7f3a"].description == "**good**"
    (tmp_path / "note.md").write_text("# From a file\n")
    assert drumbeat("note", "cifar", "--file", "note.md").exit_code == 0
    assert server.jobs["cifar-7f3a"].description == "# From a file"
    assert CliRunner().invoke(app, ["note", "cifar", "--file", "-"], input="piped\n").exit_code == 0
    assert server.jobs["cifar-7f3a"].description == "piped"
    assert drumbeat("note", "cifar", "--clear").stdout == "cifar-7f3a: note removed\n"
    assert drumbeat("note", "cifar", "--title", "the best").stdout == "cifar-7f3a: called the best\n"
    assert (server.jobs["cifar-7f3a"].display_name, server.jobs["cifar-7f3a"].description) == ("the best", "")


@pytest.mark.feature("M16")
def test_note_that_is_edited_says_what_it_was(
    drumbeat: Type, server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    server.jobs["cifar-7f3a"] = a_job(name="cifar-7f3a", description="before")
    (editor := tmp_path / "editor").write_text('#!/bin/sh\necho after >"$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    assert drumbeat("note", "cifar", "--edit").exit_code == 0
    assert server.calls[-1] == ("change_job", "cifar-7f3a", "before")
    assert drumbeat("note", "cifar", "--edit").stdout == "cifar-7f3a: the note stays as it is\n"


@pytest.mark.feature("M16")
def test_tags_of_several_jobs_are_set_and_removed(drumbeat: Type, server: FakeServer):
    for name in ("one-11", "two-22"):
        server.jobs[name] = a_job(name=name, tags={"draft": "yes"})
    told = drumbeat("tag", "one", "two", "team=vision", "formula=a=b", "--remove", "draft")
    assert told.stdout == "one-11: team=vision, formula=a=b\ntwo-22: team=vision, formula=a=b\n"
    assert server.jobs["two-22"].tags == {"team": "vision", "formula": "a=b"}


@pytest.mark.parametrize(
    "words",
    [
        ("tag", "one"), ("tag", "a=b"), ("tag", "one", "a=b", "--remove", "a"), ("note",),
        ("note", "one", "text", "--clear"), ("note", "--experiment", "e", "--title", "t"),
    ],
)  # fmt: skip
def test_labels_that_say_too_little_or_too_much_are_refused(drumbeat: Type, server: FakeServer, words: tuple[str, ...]):
    server.jobs["one-11"] = a_job(name="one-11")
    told = drumbeat(*words)
    assert told.exit_code in (1, 2)
    assert told.stderr.startswith("error: ")
    assert not any(call[0] == "change_job" for call in server.calls)


# --- run again --------------------------------------------------------------------------------------------------
@pytest.mark.feature("M16")
def test_job_is_run_again_with_changes(drumbeat: Type, server: FakeServer):
    server.jobs["cifar-7f3a"] = a_job(name="cifar-7f3a", state="failed")
    told = drumbeat("run", "--like", "cifar", "--set", "inputs.lr=0.005", "--name", "slower", "--detach")
    assert (told.exit_code, told.stdout) == (0, "slower\n")
    assert server.calls[-1] == ("run_again", "cifar-7f3a", ("inputs.lr=0.005",), "slower")


@pytest.mark.feature("M16")
def test_job_is_continued_from_its_last_checkpoint_with_other_code(drumbeat: Type, server: FakeServer):
    for name in ("cifar-7f3a", "mnist-11"):
        server.jobs[name] = a_job(name=name, state="failed")
    told = drumbeat("run", "--like", "cifar", "--resume", "--code-of", "mnist", "--detach")
    assert told.exit_code == 0, told.stderr
    assert server.calls[-1] == ("run_again", "cifar-7f3a", (), None, ("resume", True), ("code_of", "mnist-11"))
    drumbeat("plan", "--like", "cifar", "--code", "new")
    assert server.calls[-1] == ("plan_again", "cifar-7f3a", (), None, ("code", Path("new")))


@pytest.mark.feature("M16")
@pytest.mark.parametrize("words", [("--resume",), ("--code", "new"), ("--code-of", "mnist")])
def test_options_of_running_again_need_the_job(drumbeat: Type, server: FakeServer, words: tuple[str, ...]):
    told = drumbeat("run", "job.yml", *words)
    assert told.exit_code == 2
    assert f"{words[0]} changes a job that is run again, and none is named" in told.stderr
    assert server.calls == []


@pytest.mark.feature("M16")
def test_plan_of_a_job_that_is_run_again_is_shown(drumbeat: Type, server: FakeServer):
    server.jobs["cifar-7f3a"] = a_job(name="cifar-7f3a")
    server.preview = preview()
    assert "would start at once" in drumbeat("plan", "--like", "cifar").stdout
    assert server.calls[-1] == ("plan_again", "cifar-7f3a", (), None)


@pytest.mark.parametrize(
    "words", [("job.yml",), ("--nodes", "2"), ("--write", "new.yml"), ("--", "python", "train.py")]
)
def test_job_that_is_run_again_is_described_by_nothing_else(drumbeat: Type, server: FakeServer, words: tuple[str, ...]):
    told = drumbeat("run", "--like", "cifar", *words)
    assert told.exit_code == 2
    assert "--like names the job" in told.stderr
    assert server.calls == []
