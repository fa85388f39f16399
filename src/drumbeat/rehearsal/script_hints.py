"""Hints on what keeps a script from resuming seamlessly, each with its line. Pure: rules over its calls.

A rule only looks at the syntax and can't follow every program, so hints accompany observations: those that explain one
come first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from drumbeat.rehearsal.script_facts import CHECKPOINT_VARIABLE, CallFact, names_in
from drumbeat.rehearsal.script_files import ScriptFile
from drumbeat.rehearsal.script_reader import collect_facts, constant_path
from drumbeat.rehearsal.script_saves import CHECKPOINT_WORDS, TrainingScript, save_path


class HintCode(StrEnum):
    """A rule."""

    NO_SAVE = "no-save"
    NO_LOAD = "no-load"
    NOT_ATOMIC = "save-not-atomic"
    OPTIMIZER = "optimizer-not-saved"
    SCHEDULE = "schedule-not-saved"
    RANDOM = "random-states-not-saved"
    SET_EPOCH = "sampler-without-set-epoch"
    SHUFFLE = "shuffle-without-generator"
    SEED = "no-seed"
    PATH = "path-outside-checkpoint-folder"
    RANK_GUARD = "save-on-every-rank"
    LOG_STEP = "log-without-step"


@dataclass(frozen=True)
class Hint:
    """A suggested change of a script."""

    code: HintCode
    file: str
    line: int
    what: str
    fix: str


_LOADS = (
    "torch.load", "load_state_dict", "load_file", "dcp.load", "checkpoint.load", "resume", "load_checkpoint",
    "load_state", "load_weights", "load_model", "restore", "restore_or_initialize", "joblib.load",
)  # fmt: skip
_WEAK_LOADS = ("pickle.load", "pickle.loads", "json.load", "json.loads", "numpy.load", "np.load", "read_text", "open")
"""Calls that read anything: they only count as loading a checkpoint if they read from where the script saves."""
_LOADS_BY_KEYWORD = ("ckpt_path", "resume_from_checkpoint")
_MOVES = ("os.replace", "os.rename", "shutil.move")
_RANDOM = re.compile(
    r"^(torch\.(rand|randn|randint|randperm|bernoulli|normal|multinomial)|torch\.nn\.(functional\.)?[dD]ropout\w*"
    r"|nn\.(functional\.)?[dD]ropout\w*|random\.(?!seed|getstate|setstate|Random)\w+|(np|numpy)\.random\."
    r"(?!seed|default_rng|get_state|set_state|Generator|RandomState)\w+)$"
)
_LAYERS = re.compile(r"^(torch\.)?nn\.(Linear|Conv\w+|Embedding|LSTM|GRU|Transformer\w*)$")
_STATE_READERS = ("get_rng_state", "get_rng_state_all", "getstate", "get_state")
_SEEDS = ("manual_seed", "manual_seed_all", "seed", "seed_everything", "set_seed", "set_random_seed", "default_rng")


def read_hints(files: Sequence[ScriptFile], world_size: int, command: str = "") -> list[Hint]:
    """Returns hints for a script that runs in `world_size` ranks, in order of its lines. command: the job's."""
    if not files:
        return []
    script = TrainingScript(collect_facts(files), files, world_size, command)
    hints = [hint for rule in _RULES for hint in rule(script)]
    order = {file.path: number for number, file in enumerate(files)}
    unique = {(hint.code, hint.file, hint.line): hint for hint in hints}
    return sorted(unique.values(), key=lambda hint: (order[hint.file], hint.line))


def _hint(code: HintCode, at: CallFact, what: str, fix: str) -> Hint:
    return Hint(code, at.file.path, at.line, what, fix)


# --- rules --------------------------------------------------------------------------------------------------------
def _no_save(script: TrainingScript) -> Iterator[Hint]:
    if script.has_saves:
        return
    steps = [call for call in script.facts.calls if call.is_in_loop and call.last_name in ("step", "backward", "log")]
    first = script.files[0]
    fix = (
        f"Save the state every some steps to ${CHECKPOINT_VARIABLE}, and load it at the start; "
        "`drumbeat.train.Checkpoints` does both."
    )
    yield Hint(
        HintCode.NO_SAVE,
        steps[0].file.path if steps else first.path,
        steps[0].line if steps else 1,
        "no checkpoint is saved",
        fix,
    )


def _no_load(script: TrainingScript) -> Iterator[Hint]:
    facts = script.facts
    if not script.saves or [*facts.named(*_LOADS)]:
        return
    if any(call.keyword(name) for call in facts.calls for name in _LOADS_BY_KEYWORD):
        return
    places = {name for call in script.saves if (place := save_path(call)) for name in names_in(place)}
    for call in facts.named(*_WEAK_LOADS):
        is_writing = call.last_name == "open" and any(mode in call.text() for mode in ("'w", "'a", "'x"))
        is_same = bool((names_in(call.node) - {"json", "pickle", "np"}) & places)
        if not is_writing and (
            is_same or facts.leads_to_checkpoints(call.node) or CHECKPOINT_WORDS.search(call.text())
        ):
            return
    what = "a checkpoint is saved here, but none is loaded: a restart begins at the first step"
    yield _hint(HintCode.NO_LOAD, script.saves[0], what, "Before the first step, load the newest one if there is one.")


def _not_atomic(script: TrainingScript) -> Iterator[Hint]:
    for call in script.saves:
        body: ast.AST = call.function or call.file.tree
        moves = [one for one in script.facts.calls if one.name in _MOVES or _is_move_of_path(one)]
        if not any(one.node in [*ast.walk(body)] for one in moves):
            what = f"`{call.name}` writes the checkpoint in place: a fault during the write leaves half a file"
            fix = "Write to another name in the same folder, then `os.replace(it, name)`."
            yield _hint(HintCode.NOT_ATOMIC, call, what, fix)


def _is_move_of_path(call: CallFact) -> bool:
    """Whether a call is `path.replace(to)` or `path.rename(to)`; a string's `replace` has two arguments."""
    return call.last_name in ("replace", "rename") and len(call.node.args) == 1


def _state_not_saved(script: TrainingScript) -> Iterator[Hint]:
    if not script.has_saves:
        return
    save = (script.saves or script.whole_saves)[0]
    for call in script.facts.calls:
        is_schedule = ".lr_scheduler." in call.name
        is_optimizer = ".optim." in f".{call.name}" and not is_schedule and call.last_name[:1].isupper()
        name = script.facts.assigned.get(id(call.node), "").rpartition(".")[2]
        if not name or not (is_schedule or (is_optimizer and _has_state(call))) or script.saves_state(name):
            continue
        code, kind = (HintCode.SCHEDULE, "schedule") if is_schedule else (HintCode.OPTIMIZER, "optimizer")
        what = f"the state of the {kind} `{name}` ({call.file.path}:{call.line}) isn't in the checkpoint"
        fix = f"Save `{name}.state_dict()` with the model's, and load it after a restart."
        yield _hint(code, save, what, fix)


def _has_state(call: CallFact) -> bool:
    """Whether an optimizer keeps state between steps: SGD without momentum doesn't."""
    return call.last_name != "SGD" or call.keyword("momentum") is not None


def _random_not_saved(script: TrainingScript) -> Iterator[Hint]:
    facts = script.facts
    is_kept = any(call.last_name in _STATE_READERS for call in facts.calls) or _has_drumbeats(script)
    used = [call for call in facts.calls if _RANDOM.match(call.name) and call.keyword("generator") is None]
    if not script.has_saves or is_kept or not used:
        return
    save = (script.saves or script.whole_saves)[0]
    what = (
        f"the state of the random generator that `{used[0].name}` ({used[0].file.path}:{used[0].line}) uses isn't saved"
    )
    reader = "random.getstate()" if used[0].name.startswith("random.") else "torch.get_rng_state()"
    fix = f"Save `{reader}` of each rank with the checkpoint, and set it after a restart."
    yield _hint(HintCode.RANDOM, save, what, fix)


def _has_drumbeats(script: TrainingScript) -> bool:
    return any(call.last_name == "Checkpoints" for call in script.whole_saves)


def _no_set_epoch(script: TrainingScript) -> Iterator[Hint]:
    facts = script.facts
    if any(call.last_name == "set_epoch" for call in facts.calls):
        return
    for call in facts.named("DistributedSampler"):
        if not _is_false(call.keyword("shuffle")):
            what = "without `set_epoch` each epoch has the same order, and so has the one after a restart"
            yield _hint(HintCode.SET_EPOCH, call, what, "Call `sampler.set_epoch(epoch)` before each epoch.")


def _shuffle_without_generator(script: TrainingScript) -> Iterator[Hint]:
    for call in script.facts.named("DataLoader"):
        shuffle = call.keyword("shuffle")
        if shuffle is not None and not _is_false(shuffle) and call.keyword("generator") is None:
            what = "the order of the data comes from torch's own generator, whose state differs after a restart"
            fix = "Give it `generator=torch.Generator().manual_seed(seed + epoch)`, or use `train.ResumableLoader`."
            yield _hint(HintCode.SHUFFLE, call, what, fix)


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _no_seed(script: TrainingScript) -> Iterator[Hint]:
    facts = script.facts
    seeded = any(call.last_name in _SEEDS or call.name == "random.Random" for call in facts.calls)
    if seeded:
        return
    used = [call for call in facts.calls if _RANDOM.match(call.name) or _LAYERS.match(call.name)]
    if used:
        what = f"`{used[0].name}` is random, and no generator is seeded"
        fix = "Seed it at the start, the same in every run: `torch.manual_seed(1)`, `random.seed(1)`."
        yield _hint(HintCode.SEED, used[0], what, fix)


def _path_outside(script: TrainingScript) -> Iterator[Hint]:
    facts = script.facts
    if CHECKPOINT_VARIABLE in script.command:
        return
    for call in script.saves:
        place = save_path(call)
        path = constant_path(facts, place) if place is not None else ""
        if path and place is not None and not facts.leads_to_checkpoints(place):
            what = f"checkpoints go to {path!r}, and the next attempt has another folder"
            fix = f"Put them below `os.environ['{CHECKPOINT_VARIABLE}']`, which outlives attempts."
            yield _hint(HintCode.PATH, call, what, fix)


def _no_rank_guard(script: TrainingScript) -> Iterator[Hint]:
    if script.world_size < 2:
        return
    for call in script.saves:
        place = save_path(call)
        is_own = place is not None and script.facts.depends_on_rank(place)
        if not script.facts.is_called_guarded(call) and not is_own:
            what = f"all {script.world_size} ranks write this file"
            yield _hint(HintCode.RANK_GUARD, call, what, "Write it only on rank 0, or a file for each rank.")


def _log_without_step(script: TrainingScript) -> Iterator[Hint]:
    facts = script.facts
    for call in facts.calls:
        has_step = any(one.arg in ("step", None) for one in call.node.keywords)  # None: `**values` may contain it.
        if call.name == "drumbeat.log" and not has_step and (call.is_in_loop or facts.is_called_in_loop(call)):
            what = "without `step` each process counts its calls, and starts again from 0 after a restart"
            yield _hint(HintCode.LOG_STEP, call, what, "Pass the training's own step: `step=step`.")


_RULES: tuple[Callable[[TrainingScript], Iterator[Hint]], ...] = (
    _no_save,
    _no_load,
    _not_atomic,
    _state_not_saved,
    _random_not_saved,
    _no_set_epoch,
    _shuffle_without_generator,
    _no_seed,
    _path_outside,
    _no_rank_guard,
    _log_without_step,
)
