"""Logs of launchers with several processes, long ones: what the first that failed has said is kept."""

import pytest

from drumbeat.core.diagnosis.blame import verdict
from drumbeat.core.diagnosis.tracebacks import read
from drumbeat.model.agent import RankExit
from drumbeat.node.logs.failure_excerpt import failure_excerpt
from drumbeat.node.logs.first_failure import first_failure

pytestmark = pytest.mark.feature("F1")

FRAMES = "".join(f'  File "/env/lib/part{n}.py", line {n}, in call\n    return self.inner({n})\n' for n in range(60))
HEADER = "Traceback (most recent call last):\n"


def raised(prefix: str, error: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in f"{HEADER}{FRAMES}{error}".splitlines())


OWN, LOST = "ValueError: no such column: price", "RuntimeError: Connection closed by peer [10.0.0.2]:18089"
GONE = (
    "[2026-11-22 07:54:04,504] [ERROR] [launch.py:259:sigkill_handler] ['python', 't.py'] exits with return code = {}\n"
)
CLOSED = "".join(f"node-{node}: {GONE.format(1)}" for node in (0, 1))
TABLE = """train.py FAILED
Root Cause (first observed failure):
[0]:
  rank      : 3 (local_rank: 1)
  exitcode  : {} (pid: 8)
"""
SHUT = "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an exception"
HOROVODRUN = (
    raised(
        "",
        "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job "
        "to be terminated. The first process to do so was:",
    )
    + "Process name: 0\nExit code: 1\n\n"
)
LOADERS = raised("", "ValueError: Caught ValueError in DataLoader worker process 0.") + (
    f"Original {HEADER}" + '  File "/env/lib/fetch.py", line 7, in fetch\n' + f"{OWN}\n\n"
)
DUPLICATE = """\
torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:93, invalid usage, NCCL version 2.28.9
ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
Last error:
Duplicate GPU detected : rank 3 and rank 2"""
KEYS = ", ".join(f'"module.layers.{n}.attention.query.weight"' for n in range(60))
MISMATCH = f"""\
RuntimeError: Error(s) in loading state_dict for GPT:
\tMissing key(s) in state_dict: {KEYS}.
\tUnexpected key(s) in state_dict: {KEYS}."""
TORCHRUNS = raised("", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:")


@pytest.mark.parametrize(
    ("log", "line", "host", "process"),
    [
        (
            raised("[rank3]: ", DUPLICATE) + raised("[rank2]: ", DUPLICATE.replace("3 and rank 2", "2 and rank 3"))
            + TORCHRUNS + TABLE.format(1),
            "torch.distributed.DistBackendError: ncclInvalidUsage: Duplicate GPU detected : rank 3 and rank 2", "",
            "torchrun's rank 3",
        ),
        (
            "".join(raised(f"node-{rank // 2}: [rank{rank}]: ", OWN if rank == 3 else LOST) for rank in (3, 2, 0, 1))
            + CLOSED,
            OWN, "node-1", "its launcher's rank 3",
        ),
        (
            raised("node-1: [rank2]: ", LOST) + f"node-1: {GONE.format(-9)}" + raised("node-0: [rank0]: ", LOST)
            + f"node-0: {GONE.format(1)}",
            "a process of deepspeed's was ended by SIGKILL", "node-1", "",
        ),
        (
            raised("[rank3]: ", OWN) + raised("[rank2]: ", LOST) + TORCHRUNS + TABLE.format(1),
            OWN, "", "torchrun's rank 3",
        ),
        (raised("", OWN) + TORCHRUNS + TABLE.format(1), OWN, "", "torchrun's rank 3"),
        (
            raised("", OWN) + TORCHRUNS + TABLE.format(1) + f"  traceback : {HEADER}    train()\n", OWN, "",
            "torchrun's rank 3",
        ),
        (
            LOADERS + TORCHRUNS + TABLE.format(1), "ValueError: Caught ValueError in DataLoader worker process 0.", "",
            "torchrun's rank 3",
        ),
        (
            raised("[1]<stderr>:ERROR:root:", "OSError: tried again") + raised("[0]<stderr>:", OWN) + HOROVODRUN,
            OWN, "", "horovodrun's rank 0",
        ),
        (
            raised("[rank2]: ", LOST) + TORCHRUNS + TABLE.format(-9), "torchrun's rank 3 was ended by SIGKILL", "",
            "torchrun's rank 3",
        ),
        (
            "".join(f"{line}\n" for both in zip(
                raised("[3]<stderr>:", OWN).splitlines(), raised("[0]<stderr>:", SHUT).splitlines(), strict=True
            ) for line in both)
            + HOROVODRUN,
            OWN, "", "horovodrun's rank 3",
        ),
        (
            raised("[0]<stderr>:", SHUT) + raised("[2]<stderr>:", SHUT) + raised("[3]<stderr>:", OWN) + HOROVODRUN,
            OWN, "", "horovodrun's rank 3",
        ),
    ],
    ids=["torchrun's ranks share a GPU", "deepspeed raises",
         "deepspeed killed", "torchrun raises", "torchrun raises at once", "torchrun's record",
         "torchrun's data loader", "horovodrun's rank logs one that it got over", "torchrun killed",
         "horovodrun raises, interleaved", "horovodrun raises, the others first"],
)  # fmt: skip
def test_first_failure_is_found_among_long_output_of_others(tmp_path, log, line, host, process):
    file = tmp_path / "0.log"
    file.write_text("step 1\n" * 1000 + log)
    told = read(failure_excerpt(str(file), is_raised=True))
    assert told.line == line
    assert told.host == host
    assert told.process == (process if told.errors else "")


def test_long_failure_keeps_its_innermost_frames():
    word = first_failure(raised("node-0: [rank0]: ", OWN).encode(), 10**6)
    assert len(word) < 2500
    assert word.startswith(f"node-0: [rank0]: {HEADER}")
    assert "part59.py" in word
    assert word.endswith(f"node-0: [rank0]: {OWN}")


def test_an_error_with_a_long_message_keeps_its_line_and_its_place(tmp_path):
    file = tmp_path / "0.log"
    file.write_text(raised("[rank3]: ", MISMATCH) + raised("[rank2]: ", MISMATCH) + TORCHRUNS + TABLE.format(1))
    excerpt = failure_excerpt(str(file), is_raised=True)
    found = verdict([(0, RankExit(0, 1, None, 1.0, 1, tail=excerpt))])
    assert (
        'RuntimeError: Error(s) in loading state_dict for GPT: Missing key(s) in state_dict: "module' in found.sentence
    )
    assert found.place == "/env/lib/part59.py:59 RuntimeError"
    assert len(excerpt) <= 2048 + 1 + 4096


def test_frames_are_left_out_from_the_middle_before_lines_of_the_message():
    word = first_failure(raised("node-0: [rank0]: ", MISMATCH).encode(), 10**6)
    files = [line.split('"')[1].rpartition("/")[2] for line in word.splitlines() if "File" in line]
    assert (files[0], files[-1]) == ("part0.py", "part59.py"), "the job's own code, and where it was raised"
    assert word.count("self.inner(") == len(files) < 10
    assert [line.partition("\t")[2].split()[0] for line in word.splitlines()[-2:]] == ["Missing", "Unexpected"]
    assert all(len(line.encode()) <= 510 for line in word.splitlines())
    assert len(word.encode()) <= 2048


@pytest.mark.parametrize("code", ["f()", "f(" + "'x'," * 400 + ")"], ids=["short code", "long code"])
def test_the_end_of_a_message_goes_before_the_innermost_frame_and_the_error(code: str):
    log = f'{HEADER}  File "/a.py", line 1, in f\n    {code}\nValueError: {"e" * 3000}: last\n' + "".join(
        f"{n}{'m' * 600}\n" for n in range(4)
    )
    word = first_failure("".join(f"node-0: {line}\n" for line in log.splitlines()).encode(), 10**6)
    lines = [line.removeprefix("node-0: ")[:14] for line in word.splitlines()]
    kept = [line for line in lines if line.endswith("mmm")]
    assert lines[:4] == [HEADER[:14], '  File "/a.py"', f"    {code}"[:14], "ValueError: ee"]
    assert word.splitlines()[3].endswith("eee: last")
    assert [line[0] for line in kept] == [str(n) for n in range(len(kept))]
    assert len(kept) < 4
    assert len(word.encode()) <= 2048


def test_the_last_line_of_nccl_is_kept_whatever_stands_around_it():
    long = DUPLICATE.replace("rank 3 and", f"rank 3 {'on a CUDA device ' * 60} and")
    log = raised("[rank3]: ", f"{long}\nException raised from {'c' * 900}") + raised("[rank2]: ", OWN)
    told = read(first_failure(log.encode(), 10**6))
    assert "ncclInvalidUsage: Duplicate GPU detected : rank 3 on a CUDA" in told.line
    assert told.line.endswith("and rank 2")
    assert told.errors[-1].frames[-1] == ("/env/lib/part59.py", 59)


@pytest.mark.parametrize(
    "log", [raised("", OWN), raised("[rank1]: ", OWN), "epoch 3\n", "", raised("", OWN) + raised("", LOST)]
)
def test_log_of_one_process_has_no_first_failure(log: str):
    assert first_failure(log.encode(), 10**6) == ""


def test_failure_within_the_excerpt_is_not_repeated():
    log = raised("node-0: [rank0]: ", OWN).encode()
    assert first_failure(b"step 1\n" + log, 7) == ""
    assert first_failure(b"step 1\n" + log, 8).endswith(OWN), "without its first line, the end isn't understood"
