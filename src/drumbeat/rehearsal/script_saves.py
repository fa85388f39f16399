"""A script's checkpoints: which calls save a state to resume from, where, and whether they contain a state. Pure.

`script_hints.py` has the resulting advice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from drumbeat.rehearsal.script_facts import CallFact, ScriptFacts, names_in
from drumbeat.rehearsal.script_files import ScriptFile

_SAVES = (
    "torch.save", "safetensors.torch.save_file", "pickle.dump", "json.dump", "joblib.dump", "numpy.save", "numpy.savez",
    "np.save", "np.savez", "cloudpickle.dump",
)  # fmt: skip
_WRITES = ("write_text", "write_bytes")
_WHOLE_SAVES = (
    "drumbeat.train.Checkpoints", "train.Checkpoints", "Checkpoints", "dcp.save", "dcp.async_save", "checkpoint.save",
    "checkpoint.async_save", "save_checkpoint", "save_state", "save_weights", "ModelCheckpoint", "Trainer",
    "CheckpointManager",
)  # fmt: skip
"""Saves of libraries that handle ranks and atomic files themselves."""
CHECKPOINT_WORDS = re.compile(r"checkpoint|ckpt|snapshot|resum|optim", re.IGNORECASE)


class TrainingScript:
    """A script, prepared for the rules."""

    def __init__(self, facts: ScriptFacts, files: Sequence[ScriptFile], world_size: int, command: str) -> None:
        self.facts, self.files, self.world_size, self.command = facts, files, world_size, command
        self.whole_saves = [call for call in facts.named(*_WHOLE_SAVES) if not facts.is_own(call)]
        self.saves = [call for call in _plain_saves(facts) if self._is_checkpoint(call)]

    @property
    def has_saves(self) -> bool:
        return bool(self.saves or self.whole_saves)

    def _is_checkpoint(self, call: CallFact) -> bool:
        """Whether a save stores a state to resume from, not a result: it is repeated, or its name says so."""
        facts = self.facts
        place = save_path(call)
        is_said = bool(CHECKPOINT_WORDS.search(call.text())) or (
            place is not None and facts.leads_to_checkpoints(place)
        )
        # Reports are JSON or text, and are written in loops, too.
        is_report = call.name.startswith("json.") or call.last_name in _WRITES
        return is_said or (not is_report and facts.is_called_in_loop(call))

    def saves_state(self, name: str) -> bool:
        """Whether the state of a variable is read, or the variable is given to a library that saves."""
        facts = self.facts
        is_read = any(call.name == f"{name}.state_dict" for call in facts.calls)
        is_read = is_read or any(call.last_name == "state_dict" and f"{name}." in call.text() for call in facts.calls)
        savers = [*self.whole_saves, *facts.named("get_state_dict", "get_optimizer_state_dict", "prepare")]
        return is_read or any(name in names_in(argument) for call in savers for argument in _arguments(call))


def _plain_saves(facts: ScriptFacts) -> Iterator[CallFact]:
    whole = {id(call.node) for call in facts.named(*_WHOLE_SAVES)}
    for call in facts.named(*_SAVES):
        if id(call.node) not in whole:
            yield call
    for call in facts.calls:
        if call.last_name in _WRITES and any(word in call.text() for word in ("dumps", "getvalue", "getbuffer")):
            yield call


def _arguments(call: CallFact) -> list[ast.expr]:
    return [*call.node.args, *(one.value for one in call.node.keywords)]


def save_path(call: CallFact) -> ast.expr | None:
    """Returns the path expression of a save, None = unclear."""
    node = call.node
    if call.last_name in _WRITES and isinstance(node.func, ast.Attribute):
        return node.func.value
    is_first = call.name.startswith(("numpy.", "np."))
    arguments = node.args[:1] if is_first else node.args[1:2]
    given = call.keyword("f") or call.keyword("file") or call.keyword("fp")
    return arguments[0] if arguments else given
