"""What a person can do about a failure: the first row whose words are in the log's end."""

from __future__ import annotations

import re
import signal

from drumbeat.core.diagnosis.tracebacks import Told
from drumbeat.core.states import REASONS
from drumbeat.protocol.agent import RankExit
from drumbeat.protocol.states import Reason

_GPU_IS_FULL = (
    r"CUDA (?:error: )?out of memory|Cuda failure.*out of memory|Failed to CUDA \w*(?: \w+)?alloc"
    r"|CU(?:BLAS|DNN)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)|CUDA_ERROR_OUT_OF_MEMORY"
    r"|RESOURCE_EXHAUSTED: .*[Oo]ut of memory|OOM when allocating|(?:^|\.)OutOfMemoryError"
)
"""As torch, its libraries, NCCL, JAX and TensorFlow say it."""

ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"ModuleNotFoundError",
        "Install the missing package in the environment that the job runs in (`drumbeat plan` shows which).",
    ),
    (
        r"DataLoader worker .*(killed by|exited unexpectedly)|insufficient shared memory|worker process of its own",
        "Look at the memory and at /dev/shm: fewer workers (num_workers) or a smaller batch may do; see the log above.",
    ),
    (
        r"died with <Signals\.SIGKILL|non-zero exit status (?:-9|137)\b",
        "If nobody ended that process of its own, look at the machine's memory: the kernel ends the largest process.",
    ),
    (
        r"nccl\w+: .*shared memory segment",
        "NCCL found no room in /dev/shm: make it larger, or set NCCL_SHM_DISABLE=1 in environment_variables.",
    ),
    (
        # In a PID namespace torch may call the rank itself "Process 12"; then there is no "this process".
        r"CUDA out of memory\.(?=.* this process has ).* Process \d+ has ",
        "Other processes hold memory of that GPU: see who they are (`nvidia-smi`), or use a smaller batch.",
    ),
    (
        _GPU_IS_FULL,
        "Use a smaller batch or model, or ask for more nodes.",
    ),
    (
        r"No CUDA GPUs are available|Found no NVIDIA driver|Torch not compiled with CUDA|no CUDA-capable device",
        "It was given no GPU, or its torch can't use one: `instance_type: gpu` in resources insists on one per rank.",
    ),
    (
        r"Duplicate GPU detected|invalid device ordinal",
        "A rank's device is its LOCAL_RANK, and there must be one for each: `drumbeat plan` says how many a node gets.",
    ),
    (
        r"re-initialize CUDA in forked subprocess",
        "Use the GPU in the training loop only, or give the DataLoader multiprocessing_context='spawn'.",
    ),
    (
        r"MemoryError|can't allocate memory|Cannot allocate memory|bad_alloc",
        "The machine's memory or a limit on it was reached: use a smaller batch or fewer data-loader workers.",
    ),
    (
        r"Address already in use|EADDRINUSE|another process is utilizing it|Could not start gRPC server",
        "Another process has its port: take MASTER_PORT, which drumbeat keeps free for the job, or 0, which is any.",
    ),
    (
        r"DistStoreError.*(?:wait timeout|[Tt]imed out).*(?:default_pg|clients)",
        "Not all ranks came in time: WORLD_SIZE says how many the job has; a script that wants more waits in vain.",
    ),
    (r"No space left on device|Disk quota exceeded", "Free space on the disk that was written to, or write elsewhere."),
    (
        r"UnpicklingError|PytorchStreamReader|EOFError: Ran out of input|invalid header or archive is corrupted",
        "The file that was being read is broken or was cut short, often a checkpoint: go back to an earlier one.",
    ),
    (
        r"data size doesn't match|op\.preamble\.length|mismatch between collectives",
        "The ranks must call the same collectives in the same order, with tensors of the same shape and type.",
    ),
    (
        r"device-side assert",
        "Set CUDA_LAUNCH_BLOCKING=1 in environment_variables to see where; often a label is beyond the classes.",
    ),
    (
        r"CUDA error: (?:an illegal|misaligned|unspecified launch)|CU(?:BLAS|DNN)_STATUS_(?:EXEC|INTERNAL|MAPPING)",
        "CUDA tells of an error later than it happens: CUDA_LAUNCH_BLOCKING=1 in environment_variables shows where.",
    ),
    (
        r"NCCL [Ee]rror|nccl(?:\w*Error|Invalid)",
        "Set NCCL_DEBUG=INFO in environment_variables: its log names the network or device.",
    ),
    (
        r"current node timed out during startup|No node info found for head node",
        "Ray gives a node of its own 30 s to start: the machine, or the disk with Ray on it, is too slow or too busy.",
    ),
    (
        r"torchrun's rank \d+ ",
        "Its error stands further up in the log; without torchrun in the command, drumbeat names rank and error.",
    ),
    (
        r"FileNotFoundError",
        "Paths count from the job's code folder; data comes by inputs, as ${{inputs.name}} in the command.",
    ),
    (r"PermissionError", "The job runs as the user of the server: give that user the right, or use another path."),
)
"""(words, advice): searched in the error's own lines."""

SHUT_DOWN = (
    "End the script with `torch.distributed.destroy_process_group()` and, after the last write, `os._exit(0)`: torch's "
    "gloo threads can outlive Python's shutdown (seen with torch 2.13). Whatever was saved before is kept."
)

SIGNALS: dict[signal.Signals, str] = {
    signal.SIGTERM: "Nobody at drumbeat sent it: look for another program, or a person, that ends processes here.",
    signal.SIGINT: "Somebody interrupted it (Ctrl-C, or a program that sends SIGINT).",
    signal.SIGBUS: "Often /dev/shm is full: use fewer data-loader workers, or make it larger.",
    signal.SIGSEGV: "Compiled code went wrong: `python -X faulthandler` in the command shows where.",
    signal.SIGILL: "The program uses instructions that this processor doesn't have: install a build for it.",
    signal.SIGABRT: "It ended itself, mostly in compiled code: what that said of the reason stands in the log.",
    signal.SIGFPE: "Compiled code divided by zero: `python -X faulthandler` in the command shows where.",
    signal.SIGXFSZ: "A limit on the size of files was reached: see `ulimit -f`.",
    signal.SIGXCPU: "A limit on processor time was reached: see `ulimit -t`.",
}
"""What a signal most often means, where that isn't memory."""


def advice_on(told: Told, cause: RankExit, reason: Reason, sentence: str) -> str:
    """What a person can do about it. sentence: of the verdict."""
    if told.is_shut_down and not told.errors:
        return SHUT_DOWN
    text = "\n".join([*(error.line for error in told.errors), told.line, cause.error, sentence])
    for words, advice in ADVICE:
        if re.search(words, text, re.MULTILINE):
            return advice
    number = cause.signal if cause.signal is not None else (cause.code or 0) - 128
    if reason is Reason.RANK_KILLED and number in set(signal.Signals):
        return SIGNALS.get(signal.Signals(number), REASONS[reason].advice)
    return REASONS[reason].advice
