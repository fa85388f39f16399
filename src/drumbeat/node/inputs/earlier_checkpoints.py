"""Gives a job that continues an earlier one a copy of that one's checkpoints, before its ranks start the first time.

The copy is made beside the job's own folder, and becomes that folder by one rename: one that has files is complete.
The earlier job's folder is only read. Of several nodes that share the folder, one copies, and the others wait for it.
Files that the earlier job was writing when it ended are restored in the copy, from copies that lie in the folder, too
(`torn_files`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Generator

from drumbeat.model import sparse_files
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import DrumbeatError, RefusedError, StorageError
from drumbeat.model.folder_layout import LAST_GOOD
from drumbeat.model.plan import Resumption
from drumbeat.model.plurals import counted
from drumbeat.node.inputs.cache.link_tree import remove
from drumbeat.node.inputs.missing_share import MissingShareError
from drumbeat.node.platform import locks

_WAIT_S = 0.5
"""How often a node looks whether the node that copies is done."""
_UNPUBLISHED = (".partial-", ".replaced-", ".broken-", ".generation.json", ".lock")
"""How names begin that `drumbeat.train.Checkpoints` keeps for itself: none of them is a checkpoint."""


def bring(enrolment: Enrolment, progress: Callable[[str], None]) -> str:
    """Copies the checkpoints that the job begins with, unless it has some already. Returns what was copied, in words.

    progress: receives the progress in words. Raises MissingShareError where another machine may have them, RefusedError
    where none has; StorageError.
    """
    begins, own = enrolment.plan.resumption, enrolment.checkpoints
    if begins is None:
        return ""
    try:
        os.makedirs(own, exist_ok=True)
        with _alone(own, lambda: progress(f"another node copies the checkpoints of {begins.job}")) as must_copy:
            if not must_copy:
                return ""
            source = _source(begins)
            if source is None:
                if _may_lack(begins, enrolment.node):
                    return ""
                raise _missing(begins)
            return _copied(begins, source, own, progress)
    except OSError as error:
        raise StorageError(
            f"the checkpoints of {begins.job} can't be copied: {error.strerror or error}",
            where=str(error.filename or own),
            fix="Make room or give the right to read and write there, then run the job again.",
        ) from error


def _source(begins: Resumption) -> str | None:
    return next((folder for folder in begins.folders if _has_checkpoints(folder)), None)


def _may_lack(begins: Resumption, node: int) -> bool:
    """Whether this is a node beside node 0 on a machine where the earlier job ran and saved nothing: rank 0 alone saves
    in most scripts.
    """
    return begins.is_per_machine and node > 0 and any(os.path.isdir(folder) for folder in begins.folders)


def _missing(begins: Resumption) -> DrumbeatError:
    where = " or ".join(begins.folders)
    if begins.is_per_machine:
        return MissingShareError(f"the checkpoints of {begins.job} aren't on this machine: {where} has no file")
    what = f"the checkpoints of {begins.job} are gone"
    return RefusedError(what, where=where, fix="Run the job from the beginning, without them.")


def _has_checkpoints(folder: str) -> bool:
    """Whether a folder has a file that may be a checkpoint."""
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != LAST_GOOD and not name.startswith(_UNPUBLISHED)]
        if any(not name.startswith(_UNPUBLISHED) for name in names):
            return True
    return False


def _is_begun(own: str) -> bool:
    """Whether the job's folder has anything: a copy, or what its ranks have made of it."""
    return bool(os.listdir(own))


@contextlib.contextmanager
def _alone(own: str, wait: Callable[[], None]) -> Generator[bool]:
    """Gives whether this node is to copy: no other one does now, or has done so."""
    path, lock = f"{own}.lock", None
    try:
        while not _is_begun(own) and lock is None:
            lock = locks.take(path)
            if lock is None:
                wait()
                time.sleep(_WAIT_S)
        yield lock is not None and not _is_begun(own)
    finally:
        if lock is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # While it is held, as `locks.take` asks.
            os.close(lock)


def _copied(begins: Resumption, source: str, own: str, progress: Callable[[str], None]) -> str:
    part = f"{own}.part"
    remove(part)  # A node that died while it copied has left it.
    copied = files = 0

    def copy(one: str, other: str) -> None:
        nonlocal copied, files
        sparse_files.copy(one, other)
        with open(other, "rb") as file:
            os.fsync(file.fileno())
        copied, files = copied + os.path.getsize(other), files + 1
        progress(f"copying the checkpoints of {begins.job}: {copied / (1 << 20):.0f} MiB")

    try:
        try:
            shutil.copytree(source, part, symlinks=True, ignore=_unpublished, copy_function=copy)
        except shutil.Error as error:
            # The earlier job's agent may only now remove what it kept for saves that are cut off.
            if left := [(one, why) for one, _, why in error.args[0] if os.path.lexists(one)]:
                raise OSError(None, str(left[0][1]), left[0][0]) from None
        os.rename(part, own)
    finally:
        remove(part)
    return f"the checkpoints of {begins.job} were copied: {counted(files, 'file')}, {copied / (1 << 20):,.1f} MiB"


def _unpublished(folder: str, names: list[str]) -> list[str]:
    """Returns the names that aren't copied."""
    is_of_copies = os.path.basename(folder) == LAST_GOOD
    return [name for name in names if name.startswith(_UNPUBLISHED) or (is_of_copies and name.endswith(".lock"))]
