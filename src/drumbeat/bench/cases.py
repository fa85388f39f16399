"""Cases of a benchmark, in the order in which they run, and the job of each. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drumbeat.model.errors import Problem, SpecError

MODELS = ("resnet50", "resnet101", "resnet152", "mobilenet_v2")
PYTORCH, KERAS, TENSORFLOW = "pytorch", "keras", "tensorflow"
BACKENDS = {PYTORCH: ("ddp", "horovod"), KERAS: ("horovod",), TENSORFLOW: ("horovod",)}
"""How each framework averages gradients; the first is the default."""
SYNTHETIC = "synthetic"
UNSHAPED = "unshaped"
"""The network of a netlab whose links have no limit."""
RESULT = "measured.json"
"""The file that a job leaves in its output `result`."""
ENVIRONMENTS = {
    (PYTORCH, "horovod"): ("horovod-jpeg", "horovod_pytorch.yml"),
    (KERAS, "horovod"): ("horovod-tf", "horovod_tensorflow.yml"),
    (TENSORFLOW, "horovod"): ("horovod-tf", "horovod_tensorflow.yml"),
}
"""The environment of a framework and backend, and its file in the recipe; without one, ranks run in the server's."""


@dataclass(frozen=True)
class Benchmark:
    """What is measured. A file of results belongs to one of these."""

    model: str = "resnet50"
    framework: str = PYTORCH
    backend: str = "ddp"
    ranks: tuple[int, ...] = (1, 2, 4)
    ranks_per_node: int = 1
    data: str = SYNTHETIC
    """`synthetic`, or the path of a folder of class folders."""
    compute: str = "local"
    networks: tuple[str, ...] = ()
    """Bandwidths of the netlabs that the benchmark creates, or `unshaped`; empty = run on `compute`."""
    batch_size: int = 64
    image_size: int = 224
    steps: int = 10
    repeats: int = 3
    threads: int = 1
    """Threads of each rank's computation on the CPU."""
    workers: int = 1
    """Processes of each rank that read images."""
    precision: str = "fp32"
    channels_last: bool = False
    compile: bool = False


@dataclass(frozen=True)
class Case:
    """One job: a number of ranks on a network. network: "" = the links of the compute as they are."""

    repeat: int
    network: str
    ranks: int

    def __str__(self) -> str:
        """Returns the case as a log line names it."""
        ranks = "1 rank" if self.ranks == 1 else f"{self.ranks} ranks"
        return f"{ranks} at {self.network}" if self.network else ranks


def check(benchmark: Benchmark) -> None:
    """Raises SpecError with every problem of the benchmark."""
    problems = [*_wrong_choices(benchmark), *_wrong_numbers(benchmark)]
    if problems:
        raise SpecError("the benchmark is invalid", fields=tuple(problems))


def _wrong_choices(benchmark: Benchmark) -> list[Problem]:
    problems: list[Problem] = []
    if benchmark.model not in MODELS:
        problems.append(_unknown("--model", benchmark.model, MODELS))
    if benchmark.framework not in BACKENDS:
        problems.append(_unknown("--framework", benchmark.framework, tuple(BACKENDS)))
    elif benchmark.backend not in BACKENDS[benchmark.framework]:
        problems.append(_unknown("--backend", benchmark.backend, BACKENDS[benchmark.framework]))
    if benchmark.precision not in ("fp32", "bf16"):
        problems.append(_unknown("--precision", benchmark.precision, ("fp32", "bf16")))
    if benchmark.framework != PYTORCH and (
        benchmark.precision != "fp32" or benchmark.channels_last or benchmark.compile
    ):
        fix = "Leave --precision, --channels-last and --compile out, or choose --framework pytorch."
        problems.append(
            Problem(f"{benchmark.framework} can only be measured with its default settings", "--framework", fix)
        )
    return problems


def _wrong_numbers(benchmark: Benchmark) -> list[Problem]:
    problems: list[Problem] = []
    if not benchmark.ranks or list(benchmark.ranks) != sorted(set(benchmark.ranks)) or benchmark.ranks[0] < 1:
        fix = "Give numbers from 1 up, each larger than the one before: --ranks 1,2,4."
        problems.append(Problem(f"{','.join(map(str, benchmark.ranks))} aren't valid numbers of ranks", "--ranks", fix))
    each = benchmark.ranks_per_node
    uneven = [ranks for ranks in benchmark.ranks if each > 0 and ranks > each and ranks % each]
    if each < 1 or uneven:
        what = f"{uneven[0]} ranks don't fill nodes of {each}" if uneven else f"{each} isn't a valid number of ranks"
        problems.append(Problem(what, "--ranks-per-node", "Choose a number that divides all of --ranks."))
    for name in ("batch_size", "image_size", "steps", "repeats", "threads"):
        value = getattr(benchmark, name)
        if value < 1:
            problems.append(Problem(f"{value} is too few", f"--{name.replace('_', '-')}", "Give at least 1."))
    return problems


def _unknown(option: str, value: str, choices: tuple[str, ...]) -> Problem:
    return Problem(f"{value!r} is unknown", option, f"Choose one of {', '.join(choices)}.")


def cases(benchmark: Benchmark) -> list[Case]:
    """Returns every case. Each repeat runs all of them, so that a change in the machine's load affects all alike."""
    networks = benchmark.networks or ("",)
    return [
        Case(repeat, network, ranks)
        for repeat in range(1, benchmark.repeats + 1)
        for network in networks
        for ranks in benchmark.ranks
    ]


def nodes(benchmark: Benchmark, ranks: int) -> int:
    """Returns the number of nodes that `ranks` ranks need."""
    return max(1, ranks // benchmark.ranks_per_node)


def lab_name(network: str) -> str:
    """Returns the name of the netlab with this bandwidth."""
    return f"bench-{network.lower().replace('/', '').replace('.', '-')}"


def lab(benchmark: Benchmark, network: str) -> dict[str, object]:
    """Returns the compute with this bandwidth."""
    count = nodes(benchmark, max(benchmark.ranks))
    spec: dict[str, object] = {"name": lab_name(network), "type": "netlab", "nodes": count}
    return spec if network == UNSHAPED else {**spec, "bandwidth": network}


def job(benchmark: Benchmark, case: Case, code: Path) -> dict[str, object]:
    """Returns the job that measures a case. code: the folder of the recipe."""
    count = nodes(benchmark, case.ranks)
    is_torch_group = benchmark.backend == "ddp"
    spec: dict[str, object] = {
        "experiment_name": "bench",
        "display_name": f"bench {benchmark.model}, {benchmark.framework} by {benchmark.backend}: {case}",
        "code": str(code),
        "command": " ".join(_command(benchmark, case)),
        "outputs": {"result": {"type": "uri_folder"}},
        "compute": lab_name(case.network) if case.network else benchmark.compute,
        "environment_variables": {"OMP_NUM_THREADS": str(benchmark.threads)},
        "distribution": {
            "type": "pytorch" if is_torch_group else "mpi",
            "process_count_per_instance": case.ranks // count,
        },
        "resources": {"instance_count": count},
        "drumbeat": {"max_retries": 0},
    }
    if benchmark.data != SYNTHETIC:
        spec["inputs"] = {"images": {"type": "uri_folder", "path": benchmark.data}}
    if environment := ENVIRONMENTS.get((benchmark.framework, benchmark.backend)):
        spec["environment"] = environment[0]
    return spec


def _command(benchmark: Benchmark, case: Case) -> list[str]:
    words = ["python", f"train_{benchmark.framework}.py", "--model", benchmark.model]
    words += ["--train", "${{inputs.images}}"] if benchmark.data != SYNTHETIC else ["--fake"]
    words += ["--batch-size", str(benchmark.batch_size), "--image-size", str(benchmark.image_size)]
    words += ["--measure-steps", str(benchmark.steps), "--workers", str(benchmark.workers)]
    words += ["--distributed", benchmark.backend if case.ranks > 1 or benchmark.backend == "horovod" else "none"]
    words += ["--precision", benchmark.precision] if benchmark.precision != "fp32" else []
    words += ["--channels-last"] if benchmark.channels_last else []
    words += ["--compile"] if benchmark.compile else []
    return [*words, "--model-dir", "${{outputs.result}}"]
