"""What the end of a log tells: tails as they were recorded, cut and mixed as they come."""

from __future__ import annotations

import pytest

from drumbeat.core.diagnosis.tracebacks import clean, read
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("F1")

CHAINED = """  File "t.py", line 5, in load
    {}["weights"]
    ~~^^^^^^^^^^^
KeyError: 'weights'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "t.py", line 10, in <module>
    load()
  File "t.py", line 7, in load
    raise RuntimeError("the model can't be loaded") from error
RuntimeError: the model can't be loaded
"""
HANDLING = CHAINED.replace(
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception, another exception occurred",
)
WORKER = """[rank0]:   File "torch/_utils.py", line 794, in reraise
[rank0]:     raise exception
[rank0]: AssertionError: Caught AssertionError in DataLoader worker process 0.
[rank0]: Original Traceback (most recent call last):
[rank0]:   File "torch/utils/data/_utils/worker.py", line 374, in _worker_loop
[rank0]:     data = fetcher.fetch(index)
[rank0]:   File "t.py", line 7, in __getitem__
[rank0]:     assert index < 5, f"image {index} is empty"
[rank0]:            ^^^^^^^^^
[rank0]: AssertionError: image 5 is empty
"""
SPAWNED = """Traceback (most recent call last):
  File "t.py", line 9, in <module>
    mp.spawn(work, nprocs=2)
  File "torch/multiprocessing/spawn.py", line 196, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "t.py", line 5, in work
    raise ZeroDivisionError("scale is 0")
ZeroDivisionError: scale is 0
"""
TABLE = """train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-01_04:04:10
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 7)  (SIGTERM)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_04:04:10
  host      : localhost
  rank      : 3 (local_rank: 1)
  exitcode  : {code} (pid: 8) {name}
  error_file: <N/A>
============================================================
"""
IGNORED = """Traceback (most recent call last):
  File "t.py", line 8, in <module>
    raise KeyError("label")
KeyError: 'label'
Exception ignored in: <function Held.__del__ at 0x7f>
Traceback (most recent call last):
  File "t.py", line 4, in __del__
OSError: handle is closed
"""
THREAD = """Exception in thread Thread-1 (read):
Traceback (most recent call last):
  File "threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "t.py", line 4, in read
LookupError: shard 12
"""
WAITED = """Traceback (most recent call last):
  File "queue.py", line 179, in get
    raise Empty
_queue.Empty
"""
ASSERTED = "epoch 3\npython: decode.c:88: read_block: Assertion `n > 0' failed.\n"
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "t.py", line 6, in <module>
  |     raise ExceptionGroup('two shards', [ValueError('shard 3')])
  | ExceptionGroup: two shards (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: shard 3
    +------------------------------------
"""
ABORT = """terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4.
"""


@pytest.mark.parametrize(
    ("tail", "kinds", "line"),
    [
        (CHAINED, ["KeyError", "RuntimeError"], "RuntimeError: the model can't be loaded"),
        (HANDLING, ["KeyError", "RuntimeError"], "RuntimeError: the model can't be loaded"),
        (IGNORED, ["KeyError"], "KeyError: 'label'"),
        (THREAD, ["LookupError"], "LookupError: shard 12"),
        (THREAD + IGNORED, ["KeyError"], "KeyError: 'label'"),
        (THREAD + WAITED, ["LookupError", "_queue.Empty"], "_queue.Empty at `raise Empty`"),
        (WAITED + THREAD, ["_queue.Empty"], "_queue.Empty at `raise Empty`"),
        (ASSERTED, [], "python: decode.c:88: read_block: Assertion `n > 0' failed."),
        ("epoch 3\nfree(): invalid pointer\n", [], "free(): invalid pointer"),
        (GROUP, ["ExceptionGroup"], "ExceptionGroup: two shards (1 sub-exception)"),
        (ABORT, [], "gloo::EnforceNotMet: [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4."),
        ("Fatal Python error: Segmentation fault\n\nCurrent thread 0x7 (most recent call first):", [],
         "Fatal Python error: Segmentation fault"),
        (TABLE.format(code=1, name=""), [], "torchrun's rank 3 ended with exit code 1"),
        (TABLE.format(code=-9, name="(SIGKILL)"), [], "torchrun's rank 3 was ended by SIGKILL"),
        ("", [], ""),
    ],
)  # fmt: skip
def test_errors_in_the_order_in_which_they_were_raised(tail: str, kinds: list[str], line: str):
    told = read(tail)
    assert [error.kind for error in told.errors] == kinds
    assert told.line == line


@pytest.mark.parametrize(
    ("tail", "root"),
    [(WORKER, "AssertionError: image 5 is empty"), (SPAWNED, "ZeroDivisionError: scale is 0")],
)
def test_an_error_of_another_process_that_is_quoted_comes_first(tail: str, root: str):
    errors = read(tail).errors
    assert errors[0].line == root
    assert len(errors) == 2
    assert errors[0].frames[-1][0] == "t.py"


OWN = """Traceback (most recent call last):
  File "t.py", line 4, in <module>
ValueError: no such column: price
"""
OTHER = OWN.replace("ValueError: no such column: price", "RuntimeError: Connection closed by peer")
OF_TORCHRUN = """Traceback (most recent call last):
  File "torch/distributed/run.py", line 9, in run
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""


def by_rank(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (OWN, "ValueError: no such column: price"),
        (by_rank(3, OWN) + by_rank(2, OTHER), "ValueError: no such column: price"),
        (by_rank(2, OTHER) + by_rank(3, OWN), "ValueError: no such column: price"),
        (by_rank(2, OTHER), "torchrun's rank 3 ended with exit code 1"),
        (OWN + OTHER, "torchrun's rank 3 ended with exit code 1"),
    ],
    ids=["alone", "numbered", "numbered last", "of another", "whose"],
)
def test_error_of_torchruns_rank_is_quoted_if_recorded(said: str, line: str):
    table = TABLE.format(code=1, name="")
    told = read(said + OF_TORCHRUN + table)
    assert told.line == line
    assert told.process == ("torchrun's rank 3" if told.errors else "")
    assert "ended by SIGKILL" in read(said + OF_TORCHRUN + TABLE.format(code=-9, name="(SIGKILL)")).line


def test_rank_without_a_lost_peer_is_the_cause_among_torchruns_failed_ranks(messages: Messages):
    at_once = TABLE.replace("-15 (pid: 7)  (SIGTERM)", "{} (pid: 7)")
    told = read(by_rank(2, OTHER) + by_rank(0, OWN) + OF_TORCHRUN + at_once.format(1, code=1, name=""))
    messages.check(told.process, told.line)
    killed = read(by_rank(3, OTHER) + OF_TORCHRUN + at_once.format(-9, code=1, name=""))
    messages.check(killed.line)


def test_error_without_a_message_is_quoted_with_its_statement():
    told = read('Traceback (most recent call last):\n  File "t.py", line 4, in f\n    assert x < 3\nAssertionError\n')
    assert told.line == "AssertionError at `assert x < 3`"


def test_error_whose_first_line_ends_with_a_colon_has_the_next_one(messages: Messages):
    frame = 'Traceback (most recent call last):\n  File "t.py", line 4, in f\n'
    told = read(frame + "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s): fc.bias.\n")
    messages.check(told.line)


OF_HOROVODRUN = """[3]<stderr>:Traceback (most recent call last):
[3]<stderr>:  File "t.py", line 4, in <module>
[3]<stderr>:ValueError: no such column: price
Process 3 exit with status code {code}.
Traceback (most recent call last):
  File "horovod/runner/gloo_run.py", line 284, in launch_gloo
RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to end. \
The first process to do so was:
Process name: 3
Exit code: {code}
"""


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (1, "ValueError: no such column: price"),
        (247, "horovodrun's rank 3 was ended by SIGKILL"),
        (137, "horovodrun's rank 3 was ended by SIGKILL"),
    ],
)
def test_error_or_signal_of_horovodruns_rank_is_found(code: int, line: str):
    assert read(OF_HOROVODRUN.format(code=1).replace("Process name: 3", "Process name: 0")).line.startswith(
        "ValueError"
    )
    told = read(OF_HOROVODRUN.format(code=code))
    assert told.line == line
    assert told.process == ("horovodrun's rank 3" if code == 1 else "")


def test_error_that_refers_to_the_log_includes_its_line(messages: Messages):
    said = "[2026-11-22 08:28:44.36: E /x/operations.cc:681] [2]: Horovod could not be initialized: invalid rank: 7\n"
    raised = 'Traceback (most recent call last):\n  File "t.py", line 4, in f\n    init()\nValueError: Horovod '
    raised += "initialization failed. Please check log messages above for a more descriptive error.\n"
    messages.check(read(said + raised).line)
    assert "log messages above" in read(raised).line


def test_progress_bars_and_colours_are_taken_away(messages: Messages):
    tail = (
        "\r\x1b[32m 98%\x1b[0m\r\x1b[32m 99%\x1b[0mTraceback (most recent call last):\n"
        '  File "t.py", line 4\nOSError: x'
    )
    messages.check(clean(tail)[0])
    assert read(tail).line == "OSError: x"


def test_text_cut_anywhere_is_read_without_an_exception():
    for whole in (CHAINED, WORKER, SPAWNED, TABLE, IGNORED, GROUP, ABORT):
        for n in range(0, len(whole), 31):
            read(whole[n:])
            read(whole[:n])


OF_TWO_NODES = """\
[INFO] cmd = pdsh -S -w node-0,node-1
node-0: step 1
node-1: [rank1]: Traceback (most recent call last):
node-1: [rank1]:   File "train.py", line 9, in <module>
node-0: [rank0]: Traceback (most recent call last):
node-0: [rank0]:   File "train.py", line 12, in <module>
node-1: [rank1]:     raise ValueError("no such column")
node-1: [rank1]: ValueError: no such column
node-0: [rank0]:     dist.barrier()
node-0: [rank0]: RuntimeError: Connection closed by peer
node-0: exits with return code = 1
"""


def test_first_failed_node_of_a_shared_log_is_the_cause():
    told = read(OF_TWO_NODES)
    assert (told.line, told.host) == ("ValueError: no such column", "node-1")
    assert read(OF_TWO_NODES.replace("node-", "10.0.0.")).host == "10.0.0.1"
    assert read('Traceback (most recent call last):\n  File "a.py", line 1\nValueError: node-1: gone\n').host == ""


FRAMES = """  File "train.py", line 10, in <module>
    main()
  File "train.py", line 5, in main
    traceback.print_stack()
"""
"""What traceback.print_stack() prints: no header."""
OF_LOGGING = f"INFO:root:here\nStack (most recent call last):\n{FRAMES}"
OF_FAULTHANDLER = """Timeout (0:05:00)!
Thread 0x00007f11 (most recent call first):
  File "train.py", line 41 in all_reduce
  File "train.py", line 70 in <module>
"""


@pytest.mark.parametrize(
    "stack",
    [f"epoch: 2\n{FRAMES}", FRAMES, OF_LOGGING, OF_LOGGING.partition("\n")[2], OF_FAULTHANDLER],
    ids=["print_stack", "print_stack, cut", "stack_info", "stack_info, cut", "faulthandler"],
)
@pytest.mark.parametrize(
    "after",
    ["step: 100\nstep: 101\n", "Epoch: 3\n", "epoch 3\nValueError: tried again\n"],
    ids=["step", "Epoch", "an error later"],
)
def test_a_printed_stack_is_no_error(stack: str, after: str, messages: Messages):
    assert read(stack + after).errors == ()
    told = read(CHAINED + stack + after)
    messages.check(told.line)


@pytest.mark.parametrize(
    ("above", "kinds"),
    [
        ("", ["KeyError"]),
        ("all last):\n", ["KeyError"]),
        ("    load()\n", ["KeyError"]),
        ('e 12, in <module>\n    load()\n  File "t.py", line 7, in load\n', ["KeyError"]),
        ("epoch 3\nepoch 4\n", []),
    ],
    ids=["before a frame", "in the header", "before code", "in a frame", "not cut"],
)
def test_traceback_without_its_header_counts_at_the_top(above: str, kinds: list[str]):
    assert [error.kind for error in read(above + CHAINED.partition("\n\n")[0]).errors] == kinds


CUT = """  File "train.py", line 9, in main
    step()
    ~~~~^^
"""
FRAME = '  File "train.py", line 20, in step\n'


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (f'{FRAME}    raise OutOfBudget("spent")\nOutOfBudget: spent 12 of 10 h\n', "OutOfBudget: spent 12 of 10 h"),
        (f"{FRAME}    else: raise full(\n          ^^^^^^\nfull\n", "full at `else: raise full(`"),
        (f"{FRAME}    next(batches)\nStopIteration\n", "StopIteration at `next(batches)`"),
        (f"{FRAME}StopAsyncIteration\n", "StopAsyncIteration"),
        (f"{FRAME}    zlib.decompress(shard)\nzlib.error: Error -3\n", "zlib.error: Error -3"),
        (f"INFO epoch 3 begins\n{FRAME}    raise Full()\nFull: shard 3\n", "Full: shard 3"),
        (f"loss: 0.3\nlr: 1\n\n{FRAME}ValueError: bad\n", "ValueError: bad"),
        ("StopIteration\n", "StopIteration at `step()`"),
        ("socket.gaierror: [Errno -2] unknown\n", "socket.gaierror: [Errno -2] unknown"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("above", ["", "all last):\n", CHAINED], ids=["cut", "in the header", "below an error"])
def test_any_error_counts_below_frames_whose_header_was_cut_off(above: str, end: str, line: str):
    told = read(f"{above}{CUT}{end}bye\n")
    assert told.line == line
    frames = [("train.py", 9), ("train.py", 20)] if "File" in end else [("train.py", 9)]
    assert told.errors[-1].frames == frames


@pytest.mark.parametrize("after", ["Epoch: 3\n", "step: 100\n", "ValueError: tried again\n", "Done\n"])
@pytest.mark.parametrize(
    "call",
    ["traceback.print_stack(limit=2)", 'print("".join(traceback.format_stack()))', 'log.info("x", stack_info=True)'],
)
def test_printed_stack_is_distinguished_by_the_call_that_prints_it(call: str, after: str):
    stack = f"{CUT}{FRAME}    {call}\n"
    assert read(stack + after).errors == ()
    assert read(f"{stack}epoch 3\n{stack}{after}").errors == ()
    assert read(f"{stack}epoch 3\n{CUT}{after}").errors == ()


@pytest.mark.parametrize("after", ["Epoch: 3\n", "step: 100\n", "train.py: done\n"])
def test_output_below_a_cut_off_stack_without_code_is_no_error(after: str):
    assert read(FRAME + after).errors == ()
    assert read(f"{CUT}epoch 3\nINFO: x\nStack (most recent call last):\n{CUT}ValueError: x\n").errors == ()


def test_syntax_error_needs_no_traceback_header():
    said = 'set up\nready\n  File "train.py", line 3\n    def f(:\n          ^\n'
    assert read(said + "SyntaxError: invalid syntax\n").line == "SyntaxError: invalid syntax"
    assert read(said + "ValueError: x\n").errors == ()
