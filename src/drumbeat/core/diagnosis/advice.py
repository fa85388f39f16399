"""Advice on a failure: the first row of the table whose pattern matches the end of the log."""

from __future__ import annotations

import re
import signal

from drumbeat.core.diagnosis.tracebacks import LogSummary
from drumbeat.core.reason_table import REASONS
from drumbeat.model.agent import RankExit
from drumbeat.model.states import Reason

_GPU_IS_FULL = (
    r"CUDA (?:error: )?out of memory|Cuda failure.*out of memory|Failed to CUDA \w*(?: \w+)?alloc"
    r"|CU(?:BLAS|DNN)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)|CUDA_ERROR_OUT_OF_MEMORY"
    r"|RESOURCE_EXHAUSTED: .*[Oo]ut of memory|OOM when allocating|(?:^|\.)OutOfMemoryError"
)
"""The messages of torch, its libraries, NCCL, JAX and TensorFlow for a GPU whose memory is full."""

ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"Argument list too long",
        "Give the long value as a file: an input of type uri_file, whose path stands in the command.",
    ),
    (
        r"ModuleNotFoundError",
        (
            "Install the missing package in the environment that the job runs in (`drumbeat plan` shows which). On ssh "
            "hosts `current` is their own python3: name an environment, or the folder of another Python (`programs`)."
        ),
    ),
    (
        r"DataLoader worker .*(killed by|exited unexpectedly)|insufficient shared memory|worker process of its own",
        "Check the memory and /dev/shm: fewer workers (num_workers) or a smaller batch may help; see the log above.",
    ),
    (
        r"died with <Signals\.SIGKILL|non-zero exit status (?:-9|137)\b",
        "If its process wasn't killed on purpose, check the machine's memory: the kernel kills the largest process.",
    ),
    (
        r"nccl\w+: .*shared memory segment",
        "NCCL ran out of space in /dev/shm: enlarge it, or set NCCL_SHM_DISABLE=1 in environment_variables.",
    ),
    (
        # In a PID namespace torch may call the rank itself "Process 12"; then there is no "this process".
        r"CUDA out of memory\.(?=.* this process has ).* Process \d+ has ",
        "Other processes use memory on that GPU: list them with `nvidia-smi`, or use a smaller batch.",
    ),
    (
        _GPU_IS_FULL,
        "Use a smaller batch or model, or request more nodes.",
    ),
    (
        r"No CUDA GPUs are available|Found no NVIDIA driver|Torch not compiled with CUDA|no CUDA-capable device",
        "The rank got no GPU, or its torch can't use one: `instance_type: gpu` in resources requires one per rank.",
    ),
    (
        r"Duplicate GPU detected|invalid device ordinal",
        "Each rank needs the device of its LOCAL_RANK for itself: `drumbeat plan` shows how many devices a node gets.",
    ),
    (
        r"re-initialize CUDA in forked subprocess",
        "Use the GPU in the training loop only, or give the DataLoader multiprocessing_context='spawn'.",
    ),
    (
        r"MemoryError|can't allocate memory|Cannot allocate memory|bad_alloc",
        "The machine ran out of memory or reached a memory limit: use a smaller batch or fewer data-loader workers.",
    ),
    (
        r"Address already in use|EADDRINUSE|another process is utilizing it|Could not start gRPC server",
        "The port is in use: take MASTER_PORT, which drumbeat keeps free for the job, or 0 for any free port.",
    ),
    (
        r"DistStoreError.*(?:wait timeout|[Tt]imed out).*(?:default_pg|clients)",
        "Not all ranks joined in time: the job has WORLD_SIZE ranks, and a script that expects more waits forever.",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "Free space on the disk that was written to, or write to another one.",
    ),
    (
        r"UnpicklingError|PytorchStreamReader|EOFError: Ran out of input|invalid header or archive is corrupted",
        "The file that was read, often a checkpoint, is corrupt or truncated: go back to an earlier one.",
    ),
    (
        r"data size doesn't match|op\.preamble\.length|mismatch between collectives",
        "The ranks must call the same collectives in the same order, with tensors of the same shape and type.",
    ),
    (
        r"device-side assert",
        "Set CUDA_LAUNCH_BLOCKING=1 in environment_variables to see where; often a label is out of range.",
    ),
    (
        r"CUDA error: (?:an illegal|misaligned|unspecified launch)|CU(?:BLAS|DNN)_STATUS_(?:EXEC|INTERNAL|MAPPING)",
        "CUDA reports errors late: CUDA_LAUNCH_BLOCKING=1 in environment_variables shows where it happened.",
    ),
    (
        r"NCCL [Ee]rror|nccl(?:\w*Error|Invalid)",
        "Set NCCL_DEBUG=INFO in environment_variables: NCCL then logs the network or device.",
    ),
    (
        r"current node timed out during startup|No node info found for head node",
        "Ray gives each of its nodes 30 s to start: the machine, or the disk that holds Ray, is too slow or too busy.",
    ),
    (
        r"torchrun's rank \d+ ",
        "The error is further up in the log; without torchrun in the command, drumbeat names the rank and the error.",
    ),
    (
        r"FileNotFoundError",
        "Paths are relative to the job's code folder; data comes from inputs, as ${{inputs.name}} in the command.",
    ),
    (r"PermissionError", "The job runs as the server's user: grant that user permission, or use another path."),
)
"""(pattern, advice); the patterns are searched in the lines of the errors."""

SHUT_DOWN = (
    "End the script with `torch.distributed.destroy_process_group()` and, after the last write, `os._exit(0)`: torch's "
    "gloo threads can outlive Python's shutdown (seen with torch 2.13). Everything saved before that is kept."
)

SIGNALS: dict[signal.Signals, str] = {
    signal.SIGTERM: "drumbeat didn't send it: look for another program, or a user, that ends processes here.",
    signal.SIGINT: "It was interrupted (Ctrl-C, or a program that sends SIGINT).",
    signal.SIGBUS: "Often /dev/shm is full: use fewer data-loader workers, or enlarge it.",
    signal.SIGSEGV: "Compiled code crashed: `python -X faulthandler` in the command shows where.",
    signal.SIGILL: "The program uses instructions that this processor lacks: install a build for this processor.",
    signal.SIGABRT: "It aborted itself, usually in compiled code: the reason is in the log.",
    signal.SIGFPE: "Compiled code divided by zero: `python -X faulthandler` in the command shows where.",
    signal.SIGXFSZ: "It reached a limit on file size: see `ulimit -f`.",
    signal.SIGXCPU: "It reached a limit on processor time: see `ulimit -t`.",
}
"""The usual cause of a signal; SIGKILL is missing, since its usual cause is memory (see `Reason.RANK_KILLED`)."""


def advice_on(log: LogSummary, cause: RankExit, reason: Reason, sentence: str, line: str = "") -> str:
    """Returns the advice for a failed rank, by its log and then by its signal.

    sentence: of the verdict. line: of the job's code, at which the error was raised; "" = unknown.
    """
    if log.is_shut_down and not log.errors:
        return SHUT_DOWN
    text = "\n".join([*(error.line for error in log.errors), log.line, cause.error, sentence])
    for pattern, advice in ADVICE:
        if re.search(pattern, text, re.MULTILINE):
            return advice
    number = cause.signal if cause.signal is not None else (cause.code or 0) - 128
    if reason is Reason.RANK_KILLED and number in set(signal.Signals):
        return SIGNALS.get(signal.Signals(number), REASONS[reason].advice)
    if reason is Reason.RANK_FAILED and line:
        return f"Fix the error at {line}, then run the job again; the traceback is at the end of its log."
    return REASONS[reason].advice
