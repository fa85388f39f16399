"""`Checkpoints`: saves a training while it goes on, and goes on from the last good one.

    checkpoints = train.Checkpoints(model, optimizer, loader=loader, schedule=schedule, every=500)
    step = checkpoints.resume()
    for epoch in range(loader.epoch, epochs):
        for batch in loader:
            ...
            step += 1
            checkpoints.step(step)
    checkpoints.close()

Tensors are written by torch.distributed.checkpoint: each rank writes its own shards, and another number of ranks can
read them. A save copies the state and returns; a thread writes it. Which saves stay is decided in
`checkpoint_folder.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from drumbeat.model.errors import RefusedError
from drumbeat.rank.metric_log import log, sync
from drumbeat.train.batch_scaling import BatchScaling
from drumbeat.train.checkpoint_files import CheckpointFiles
from drumbeat.train.checkpoint_folder import CheckpointFolder, Generation
from drumbeat.train.gradient_order import GradientOrder
from drumbeat.train.learning_rates import LearningRates
from drumbeat.train.process_group import before_leaving
from drumbeat.train.rank_group import RankGroup, check_ranks_have_met
from drumbeat.train.saved_state import SavedState
from drumbeat.train.termination import TERMINATED, TerminationRequest

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

DEFAULT_KEEP = 3
GRADIENT_ORDER = "drumbeat.gradient_order"
"""The name of DDP's gradient order among the other states of a checkpoint."""
LEARNING_RATES = "drumbeat.learning_rates"
"""The name of the learning rate of the saving ranks among the other states."""
SYNC_S = 5.0
"""How long a save waits for the node to receive the rank's metrics."""
MIN_STEP_TIMEOUT_S = 5.0
"""How long a step may take after SIGTERM, unless three times the longest step is more."""


class Stateful(Protocol):
    """Anything that can be saved beside the model: a schedule, a loader, a gradient scaler."""

    def state_dict(self) -> dict[str, Any]:
        """Returns its state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Sets its state."""
        ...


class Checkpoints:
    """The checkpoints of a training. Every method but `close` is collective: all ranks call it at the same step."""

    def __init__(  # noqa: PLR0913 (keywords, each with a default)
        self,
        model: nn.Module,
        optimizers: Optimizer | Iterable[Optimizer] = (),
        *,
        loader: Stateful | None = None,
        every: int = 0,
        every_s: float = 0.0,
        keep: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        scaling: BatchScaling | None = None,
        stage: int | str | None = None,
        **others: Stateful,
    ) -> None:
        """Checks who shares the folder; reads and writes nothing else.

        loader: the place of each rank in the data. every, every_s: how many steps or seconds apart `step` saves; 0 =
        never by that. keep: how many checkpoints stay, by default `drumbeat: {checkpoints: {keep: …}}` of the job, else
        3. folder: by default $DRUMBEAT_CHECKPOINT_DIR, else `checkpoints`. scaling: the result of `train.scaled`; the
        rates of optimizers and schedules follow it when another number of ranks resumes. stage: which part of a
        pipeline's model this rank has, if the parts' tensors have equal names. others: other objects with a state that
        is the same on all ranks. Raises RefusedError if an argument is invalid, or the ranks haven't met yet.
        """
        check_ranks_have_met("train.Checkpoints")
        keep = _keep_of_job() if keep is None else keep
        if keep < 1 or every < 0 or every_s < 0:
            what = f"keep={keep}, every={every}, every_s={every_s} are invalid"
            raise RefusedError(what, where="train.Checkpoints", fix="Keep at least 1, and give positive intervals.")
        for name, one in {**others, **({"loader": loader} if loader is not None else {})}.items():
            if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict"):
                what = f"`{name}` is a {type(one).__name__}, which has no state_dict and load_state_dict"
                fix = "For data use torchdata's StatefulDataLoader, or train.ResumableLoader."
                raise RefusedError(what, where="train.Checkpoints", fix=fix)
        if scaling is not None and not isinstance(scaling, BatchScaling):
            what = f"`scaling` is a {type(scaling).__name__}, not the result of train.scaled"
            raise RefusedError(what, where="train.Checkpoints", fix="Give it another name.")
        root = Path(folder or os.environ.get("DRUMBEAT_CHECKPOINT_DIR") or "checkpoints").absolute()
        self.folder = CheckpointFolder(root, keep, Generation.from_environment(os.environ))
        self.every, self.every_s = every, every_s
        self._state = SavedState(model, optimizers, loader, {**others, GRADIENT_ORDER: GradientOrder(model)}, stage)
        if scaling is not None:
            # It is the last one, because it is restored after the schedules.
            self._state.others[LEARNING_RATES] = LearningRates(scaling, self._state.optimizers, others.values())
        # Two groups, because the writing thread must not receive messages of the training's own votes.
        self._ranks, writers = RankGroup(), RankGroup()
        self._files = CheckpointFiles(self.folder, writers)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="drumbeat.checkpoint")
        self._pending: Future[int] | None = None
        self._has_warned = False
        self._saved_at, self._last_step = time.monotonic(), 0
        self._stepped_at, self._longest_step_s = time.monotonic(), 0.0
        self._termination = TerminationRequest(lambda: max(MIN_STEP_TIMEOUT_S, 3 * self._longest_step_s))
        self.stalls_s: list[float] = []
        """How long each save has blocked the training, in seconds."""
        before_leaving.append(self.close)

    def resume(self) -> int:
        """Restores the last good checkpoint. Returns its step, 0 = there is none.

        It waits for a save that is being written. A checkpoint that isn't intact is put aside, and rank 0 prints why.
        Raises RefusedError if the previous save has failed, a checkpoint can't be read at all, a later attempt of the
        job has begun, the place in the data can't be carried over to this number of ranks, the checkpoint has states of
        optimizers that are missing here, or a name is in two parts of the model.
        """
        self.wait()
        self._files.claim()
        self._files.compare_models(self._state)
        step, notes = self._files.newest()
        for note in notes:
            self._say(note)
        if step:
            self._files.load(step, self._state)
            self._say(f"checkpoint: resuming after step {step:,}")
        self._last_step, self._saved_at = step, time.monotonic()
        return step

    def step(self, step: int) -> None:
        """Saves if it is due, or if a rank was asked to end (SIGTERM); then the rank exits with code 143.

        Costs one all-reduce of a byte or two. step: how many steps are done, counted from 1.
        """
        is_due = bool(self.every) and step % self.every == 0
        is_late = bool(self.every_s) and time.monotonic() - self._saved_at >= self.every_s
        self._longest_step_s = max(self._longest_step_s, time.monotonic() - self._stepped_at)
        is_late, is_terminated = self._ranks.any(is_late and self._ranks.is_leader, self._termination.is_set)
        self._stepped_at = time.monotonic()
        if is_terminated:
            self._termination.heed()
        if is_due or is_late or is_terminated:
            self.save(step)
        if is_terminated:
            self.close()
            self._say(f"checkpoint: step {step:,} is saved, and the ranks exit because of SIGTERM")
            raise SystemExit(TERMINATED)

    def save(self, step: int) -> None:
        """Saves now: returns when the state is copied, and a thread writes it. Waits for the previous save.

        step: how many steps are done, counted from 1; a saved step isn't saved again. Raises RefusedError if the
        previous save has failed, or if ranks have different weights under equal names where they must not.
        """
        if step < 1:
            raise RefusedError(f"step {step} can't be saved", where="train.Checkpoints", fix="Count steps from 1.")
        if step == self._last_step:
            return
        began = time.monotonic()
        self.wait()
        if note := self._files.compare_weights(self._state):
            self._say(note)
        copied = self._state.copied()
        self._last_step, self._saved_at = step, time.monotonic()
        self.stalls_s.append(self._saved_at - began)
        self._pending = self._writer.submit(self._write, step, copied, self.stalls_s[-1])

    def wait(self) -> None:
        """Waits until the last save is on the disk. Raises RefusedError if it has failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Waits for the last save and restores the handling of SIGTERM. Raises RefusedError if the save has failed."""
        if self.close in before_leaving:
            before_leaving.remove(self.close)
        self._termination.close()
        try:
            self.wait()
        finally:
            self._writer.shutdown()

    def _write(self, step: int, copied: dict[str, Any], stall_s: float) -> int:
        # Steps that the checkpoint covers aren't repeated, so their values must not be lost with a killed rank.
        sync(SYNC_S)
        began = time.monotonic()
        size = self._files.write(step, copied)
        took_s = time.monotonic() - began
        if self._ranks.is_leader:
            values = {"checkpoint/bytes": size, "checkpoint/stall_s": stall_s, "checkpoint/write_s": took_s}
            log(step=step, **values)
        self._say(
            f"checkpoint: step {step:,} saved, {size / 1e6:,.1f} MB written in {took_s:.2f} s, "
            f"training blocked for {stall_s:.2f} s"
        )
        self._warn_of_later_steps(step)
        return size

    def _warn_of_later_steps(self, step: int) -> None:
        """Warns once that the folder has later steps: the training started from the beginning without emptying it."""
        newest = max(self.folder.steps(), default=0)
        if newest > step and not self._has_warned:
            self._has_warned = True
            self._say(
                f"checkpoint: the folder also has step {newest:,}, from which `resume` would continue; "
                f"to start from the beginning, empty {self.folder.root} or give another folder"
            )

    def _say(self, line: str) -> None:
        """Prints a line on rank 0, for the job's log."""
        if self._ranks.is_leader:
            print(line, flush=True)  # noqa: T201 (a rank's log is its output)


def _keep_of_job() -> int:
    """Reads how many checkpoints the job keeps. Raises RefusedError if its variable isn't a number."""
    text = os.environ.get("DRUMBEAT_CHECKPOINT_KEEP", "")
    try:
        return int(text or DEFAULT_KEEP)
    except ValueError:
        what = f"DRUMBEAT_CHECKPOINT_KEEP is {text!r}, which isn't a number"
        raise RefusedError(what, where="train.Checkpoints", fix="Set it to an integer, or unset it.") from None
