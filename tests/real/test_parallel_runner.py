"""The runner of parallel steps as processes of its own: every mini-batch once, whatever dies, hangs or raises."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.parallel import messages
from drumbeat.parallel.journal import MiniBatchJournal
from tools.kept_programs import MLFLOW, MLTABLE, KeptProgram, NotFetchedError

from .house import until

pytestmark = pytest.mark.feature("R3")

PLAIN = "def run(files):\n    return [name(one) for one in files]\n"
HEAD = """
import os, signal, sys, time, pathlib
def name(path):
    return os.path.basename(path)
def is_first(key):
    try:
        os.close(os.open(os.path.join(os.environ["MARKS"], key), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
"""


class Step:
    """An input of 60 files, a script, and the runners of its nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.input = folder, folder / "input"
        self.output, self.checkpoints = folder / "predictions.csv", folder / "checkpoints"
        self.input.mkdir()
        (folder / "marks").mkdir()
        for number in range(60):
            (self.input / f"f{number:02d}").touch()
        self.runners: list[subprocess.Popen[str]] = []
        self.environment = dict(os.environ)

    def start(self, script: str, *arguments: str, nodes: int = 1, **settings: Any) -> list[subprocess.Popen[str]]:
        """Starts the runner of each node, 2 workers on each."""
        (self.folder / "score.py").write_text(HEAD + script)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        given = {"mini_batch_size": 5, "workers": 2, "max_retries": 3, **settings}
        line = [sys.executable, "-m", "drumbeat.parallel", "--settings", json.dumps(given), "--input", str(self.input),
                "--append-to", str(self.output), "--", "score.py", *arguments]  # fmt: skip
        own = {
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(nodes), messages.SECRET: "abc",
            "DRUMBEAT_CHECKPOINT_DIR": str(self.checkpoints), "MARKS": str(self.folder / "marks"),
        }  # fmt: skip
        started = [
            subprocess.Popen(
                line, cwd=self.folder, env={**self.environment, **own, "NODE_RANK": str(node)}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True,
            )
            for node in range(nodes)
        ]  # fmt: skip
        self.runners += started
        return started

    def run(self, script: str, *arguments: str, nodes: int = 1, **settings: Any) -> tuple[int, str]:
        """Runs to the end; returns node 0's exit code and what all nodes printed."""
        started = self.start(script, *arguments, nodes=nodes, **settings)
        texts = [one.communicate(timeout=100)[0] for one in started]
        return started[0].returncode, "".join(texts)

    def without_script(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs one node of which `--model` is the model, to the end."""
        line = [sys.executable, "-m", "drumbeat.parallel", "--settings", '{"workers": 1}', "--input", str(self.input),
                "--append-to", str(self.output), *arguments]  # fmt: skip
        return subprocess.run(
            line, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )

    @property
    def rows(self) -> list[str]:
        return self.output.read_text().splitlines()

    @property
    def journaled(self) -> int:
        """Mini-batches in the journal."""
        with contextlib.suppress(FileNotFoundError):
            return max(0, len((self.checkpoints / ".mini-batches.jsonl").read_bytes().splitlines()) - 1)
        return 0


NAMES = [f"f{number:02d}" for number in range(60)]


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Step]:
    with _ended(Step(tmp_path)) as made:
        yield made


@contextlib.contextmanager
def _ended(step: Step) -> Generator[Step]:
    try:
        yield step
    finally:
        for one in step.runners:
            if one.poll() is None:
                one.kill()
                one.wait()
            if one.stdout:
                one.stdout.close()


def add_mlflow(step: Step, program: KeptProgram = MLFLOW) -> None:
    """Gives the runners MLflow and pandas, which drumbeat's own environment lacks, or another program's packages."""
    try:
        modules = program.fetch().parents[1]
    except NotFetchedError as error:
        pytest.skip(str(error))
    step.environment["PYTHONPATH"] = str(modules)


def test_two_nodes_score_each_file_once_in_the_order_of_the_input(step: Step) -> None:
    code, text = step.run(PLAIN, nodes=2)
    assert code == 0, text
    assert step.rows == NAMES
    assert "12 of 12 mini-batches done" in text
    assert not [one for one in step.folder.iterdir() if one.name.endswith(".partial")]


def test_mini_batches_whose_workers_die_are_tried_again_elsewhere(step: Step) -> None:
    script = """
def run(files):
    if name(files[0]) in ("f10", "f40") and is_first(name(files[0])):
        os.kill(os.getpid(), signal.SIGKILL)
    return [name(one) for one in files]
"""
    code, text = step.run(script, nodes=2)
    assert code == 0, text
    assert step.rows == NAMES
    assert text.count("the worker process was ended by SIGKILL") == 2
    assert "2 tried again" in text


def test_worker_that_hangs_with_signals_blocked_is_killed_at_the_timeout(step: Step) -> None:
    script = """
def run(files):
    if name(files[0]) == "f20" and is_first("hang"):
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
        time.sleep(600)
    return [name(one) for one in files]
"""
    code, text = step.run(script, timeout_s=1)
    assert code == 0, text
    assert step.rows == NAMES
    assert "run() took longer than 1 s (retry_settings.timeout)" in text


RAISES = """
def run(files):
    if any(name(one) in ("f12", "f33") for one in files):
        raise ValueError("no picture")
    return [name(one) for one in files]
"""


def test_mini_batches_that_always_fail_are_lost_and_counted(step: Step) -> None:
    code, text = step.run(RAISES)
    assert code == 0, text
    assert step.rows == [
        one for one in NAMES if one[1:] not in ("10", "11", "12", "13", "14", "30", "31", "32", "33", "34")
    ]
    assert "6 tried again, 2 failed, 10 items without a result" in text


def test_step_fails_with_the_last_error_when_too_many_mini_batches_fail(step: Step) -> None:
    code, text = step.run(RAISES, mini_batch_error_threshold=1, max_retries=0)
    assert code == 1
    assert "2 mini-batches failed; mini_batch_error_threshold is 1" in text
    assert "ValueError: no picture (score.py, line " in text
    assert not step.output.exists()
    code, text = step.run(PLAIN, mini_batch_error_threshold=1)
    assert code == 0, text
    assert step.rows == NAMES, "the next attempt starts over"


SHORT = "def run(files):\n    return [name(one) for one in files][:-1]\n"


def test_missing_elements_are_items_without_a_result(step: Step) -> None:
    code, text = step.run(SHORT, error_threshold=12, max_retries=1)
    assert code == 0, text
    assert len(step.rows) == 48
    assert "12 items without a result" in text


def test_arguments_of_the_runner_are_taken_out_of_the_scripts(step: Step) -> None:
    script = "def run(files):\n    print('arguments', sys.argv[1:], flush=True)\n    return [1 for one in files][:-1]\n"
    code, text = step.run(
        script, "--error_threshold", "11", "--resume", "no", "--copy_logs_to_parent=true", max_retries=0
    )
    assert code == 1
    assert "arguments ['--resume', 'no']" in text
    assert "12 items have no result; error_threshold is 11. The last failure: run() returned 4 of 5 elements" in text


SLOW = """
def run(files):
    time.sleep(0.2)
    print("took", *map(name, files), flush=True)
    return [name(one) for one in files]
"""


def test_node_0_killed_in_the_middle_goes_on_from_its_journal(step: Step) -> None:
    first = step.start(SLOW, nodes=2)
    until(lambda: step.journaled >= 3, 60, "some mini-batches")
    first[0].send_signal(signal.SIGKILL)
    first[0].wait()
    assert first[1].wait(30) != 0, "the other node ends when the dealer is lost"
    assert "connection reset by peer" in (first[1].stdout.read() if first[1].stdout else "")
    kept = step.journaled
    with (step.checkpoints / ".mini-batches.jsonl").open("ab") as journal:
        journal.write(b'{"mini_batch": 9, "text": "f4')
    code, text = step.run(SLOW, nodes=2)
    assert code == 0, text
    assert step.rows == NAMES
    assert f"{kept} of them by earlier attempts" in text
    assert text.count("took f") == 12 - kept


def test_other_node_killed_in_the_middle_costs_no_try(step: Step) -> None:
    first = step.start(SLOW, nodes=2, max_retries=0)
    until(lambda: step.journaled >= 2, 60, "some mini-batches")
    first[1].send_signal(signal.SIGKILL)
    text = first[0].communicate(timeout=60)[0]
    assert first[0].returncode == 0, text
    assert step.rows == NAMES
    assert "failed" not in text


def test_journal_of_another_input_is_not_used(step: Step) -> None:
    assert step.run(PLAIN)[0] == 0
    (step.input / "f60").touch()
    code, text = step.run(PLAIN)
    assert code == 0, text
    assert "earlier attempts" not in text
    assert step.rows == [*NAMES, "f60"]


def test_journal_begun_in_place_of_another_ones_is_read_again(tmp_path: Path) -> None:
    MiniBatchJournal(str(tmp_path), "first").keep(0, "a\n", 0, "")
    MiniBatchJournal(str(tmp_path), "second").keep(3, "b\n", 1, "short")
    again = MiniBatchJournal(str(tmp_path), "second")
    assert (again.text(3), [*again.done], again.failed, again.lost) == ("b\n", [3], 1, 1)


def test_init_that_always_fails_ends_the_step_with_its_error(step: Step) -> None:
    code, text = step.run("def init():\n    raise OSError('no model')\n" + PLAIN)
    assert code == 1
    assert "init() of score.py failed 2 times: OSError: no model (score.py, line" in text


def test_init_and_shutdown_are_called_once_in_each_worker(step: Step) -> None:
    script = """
from azureml_user.parallel_run import EntryScript
def init():
    EntryScript().logger.info("begins as %s", EntryScript().agent_name)
    print("begin", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
def shutdown():
    print("end", EntryScript().agent_name, flush=True)
"""
    step.environment["CUDA_VISIBLE_DEVICES"] = "2,3,5,7"
    code, text = step.run(script + SLOW)
    assert code == 0, text
    assert Counter(line for line in text.splitlines() if line.startswith(("begin", "end"))) == Counter(
        ["begin 2,3", "begin 5,7", "end process000", "end process001"]
    )
    assert "INFO:azureml_user.parallel_run:begins as process000" in text


def test_files_are_partitioned_by_the_names_of_their_folders(step: Step) -> None:
    for part in ("shop=1/year=3/a", "shop=1/year=4/b", "shop=2/year=3/c", "shop=2/year=3/d"):
        (step.folder / "parts" / part).parent.mkdir(parents=True, exist_ok=True)
        (step.folder / "parts" / part).touch()
    step.input = step.folder / "parts"
    script = """
def run(files, context):
    key = context.partition_key_value
    return [f"{key['shop']} {key['year']} " + "".join(map(name, files))] * len(files)
"""
    code, text = step.run(script, partition_keys=["shop", "year"])
    assert code == 0, text
    assert step.rows == ["1 3 a", "1 4 b", "2 3 cd", "2 3 cd"]


@pytest.mark.thorough
def test_data_frames_are_written_with_spaces_and_without_header(step: Step) -> None:
    add_mlflow(step)
    script = """
def run(files):
    import pandas
    return pandas.DataFrame({"file": [name(one) for one in files], "score": 0.5, "word": "a b"})
"""
    code, text = step.run(script, mini_batch_size=30)
    assert code == 0, text
    assert step.rows[:2] == ['f00 0.5 "a b"', 'f01 0.5 "a b"']
    assert len(step.rows) == 60


@pytest.mark.thorough
@pytest.mark.feature("R3")
def test_rows_of_tables_are_divided_by_bytes_and_come_back_in_their_order(step: Step) -> None:
    add_mlflow(step)
    for one in step.input.iterdir():
        one.unlink()
    (step.input / "a.csv").write_text("x,word\n" + "".join(f"{n},a{n}\n" for n in range(100)))
    (step.input / "b.jsonl").write_text("".join(f'{{"x": {n}, "word": "b{n}"}}\n' for n in range(50)))
    (step.input / "MLTable").write_text('{"paths": [{"folder": "."}]}')
    script = """
def run(rows, context):
    if rows.word[0] in ("a0", "b0") and is_first(rows.word[0]):
        os.kill(os.getpid(), signal.SIGKILL)
    print("rows", len(rows), flush=True)
    return rows.word + "=" + (rows.x * 2).astype(str)
"""
    code, text = step.run(script, nodes=2, mini_batch_size=10, mini_batch_bytes=200)
    assert code == 0, text
    assert step.rows == [f"a{n}={2 * n}" for n in range(100)] + [f"b{n}={2 * n}" for n in range(50)]
    assert "rows 100" not in text
    assert "2 tried again" in text


def test_file_of_unknown_rows_is_not_divided_by_bytes(step: Step) -> None:
    code, text = step.run("def run(rows):\n    return rows\n", mini_batch_bytes=100)
    assert code == 1
    assert "f00 can't be divided by bytes: its rows aren't known, as those of .csv, .tsv, .jsonl, .ndjson, " in text


def test_rows_of_a_parquet_file_need_a_package_which_is_named(step: Step) -> None:
    for one in step.input.iterdir():
        one.unlink()
    (step.input / "a.parquet").write_bytes(b"PAR1")
    code, text = step.run("def run(rows):\n    return rows\n", mini_batch_bytes=100)
    assert code == 1
    assert "a.parquet can't be read without the package pyarrow: add it to the environment of the step" in text


@pytest.mark.thorough
def test_rows_of_an_mltable_of_parquet_files_are_filtered_and_cut_over_all_mini_batches(step: Step) -> None:
    add_mlflow(step, MLTABLE)
    for one in step.input.iterdir():
        one.unlink()
    write = "import pandas, sys; pandas.DataFrame({'x': range(60)}).to_parquet(sys.argv[1], row_group_size=25)"
    subprocess.run([sys.executable, "-c", write, step.input / "a.parquet"], env=step.environment, check=True)
    (step.input / "MLTable").write_text("""
paths: [{file: ./a.parquet}]
transformations:
  - read_parquet
  - filter: col("x") >= 10
  - take: 30
""")
    script = "def run(rows):\n    print('rows', len(rows), flush=True)\n    return [*rows.x]\n"
    code, text = step.run(script, nodes=2, mini_batch_bytes=100)
    assert code == 0, text
    assert step.rows == [str(n) for n in range(10, 40)]
    assert text.count("rows ") > 2
    short = "def run(rows):\n    return [*rows.x][1:]\n"
    code, text = step.run(short, mini_batch_bytes=1 << 20, max_retries=0, error_threshold=0)
    assert code == 1
    assert "1 items have no result; error_threshold is 0. The last failure: run() returned 29 of 30 elements" in text


@pytest.mark.thorough
def test_tables_are_read_as_by_azures_own_package(step: Step) -> None:
    add_mlflow(step, MLTABLE)
    line = [sys.executable, str(Path(__file__).with_name("table_cases.py")), str(step.folder / "tables")]
    done = subprocess.run(line, env=step.environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("48 tables, 0 differences"), (done.stdout, done.stderr[-2000:])


def test_connections_without_the_secret_get_no_mini_batch(step: Step) -> None:
    runner = step.start(SLOW)[0]
    until(lambda: step.journaled >= 1, 60, "the dealer")
    port = int(Path(f"/proc/{runner.pid}/environ").read_bytes().split(b"MASTER_PORT=")[1].split(b"\0")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        channel = messages.BlockingChannel(stranger)
        theirs = (channel.receive() or {})["nonce"]
        channel.send({"nonce": "1", "proof": messages.proof("guess", "node", theirs, "1"), "workers": 1})
        assert channel.receive() is None
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        messages.BlockingChannel(stranger).receive()
        stranger.sendall(b"\xff" * 2000)
        assert stranger.recv(10) == b""
    text = runner.communicate(timeout=60)[0]
    assert runner.returncode == 0, text
    assert step.rows == NAMES


def test_workers_and_the_script_do_not_see_the_secret(step: Step) -> None:
    code, text = step.run(f"def run(files):\n    return [{messages.SECRET!r} in os.environ for one in files]\n")
    assert code == 0, text
    assert set(step.rows) == {"False"}


@pytest.mark.thorough
def test_mlflow_model_without_a_script_predicts_each_row_of_each_table(step: Step, tmp_path: Path) -> None:
    add_mlflow(step)
    for one in step.input.iterdir():
        one.unlink()
    (step.input / "a.csv").write_text("x,y\n1,2\n3,4\n")
    (step.input / "b.json").write_text('[{"x": 5, "y": 6}]')
    code = """
import mlflow

class Sum(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return model_input.sum(axis=1)

mlflow.models.set_model(Sum())
"""
    (tmp_path / "model.py").write_text(code)
    save = "import mlflow.pyfunc; mlflow.pyfunc.save_model('model', python_model='model.py')"
    subprocess.run([sys.executable, "-W", "ignore", "-c", save], cwd=tmp_path, env=step.environment, check=True)
    done = step.without_script("--model", str(tmp_path / "model"))
    assert done.returncode == 0, done.stdout
    assert step.rows == ["0,3,a.csv", "1,7,a.csv", "0,11,b.json"]
