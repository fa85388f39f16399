"""Stages what the ranks need on the node before they start: code, inputs, folders. Once per attempt and boot of the
machine.

Everything is built beside its place and then moved there, so that a name never stands for an incomplete thing. What the
code brought as `outputs/` becomes the beginning of the default output, since `./outputs` of a rank is that output.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from drumbeat.model import folder_layout, sparse_files
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import DrumbeatError, RefusedError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.plan import InputPlan
from drumbeat.node.inputs import clean_round
from drumbeat.node.inputs.cache.link_tree import fresh, remove
from drumbeat.node.inputs.snapshots import bring
from drumbeat.node.platform import completion_marks
from drumbeat.node.platform.server_link import ServerLink

if TYPE_CHECKING:
    from drumbeat.node.inputs.store_inputs import NodeInputs

_BEGUN, _MARK = "staging", "staged"


def forget(root: str) -> None:
    """Takes the folder for incomplete: a later agent stages what is missing."""
    with contextlib.suppress(FileNotFoundError):
        os.replace(f"{root}/{_MARK}", f"{root}/{_BEGUN}")


class InputStager:
    """Stages one attempt's folder. progress: receives the progress in words. remote: inputs that lie in stores."""

    def __init__(
        self, enrolment: Enrolment, link: ServerLink, progress: Callable[[str], None], remote: NodeInputs | None = None
    ) -> None:
        self._root, self._plan = enrolment.root, enrolment.plan
        self._checkpoints = enrolment.checkpoints
        self._link, self._progress, self._remote = link, progress, remote

    def stage(self, number: int = 1) -> None:
        """Stages what is missing for a round. Raises DrumbeatError."""
        begun, mark = f"{self._root}/{_BEGUN}", f"{self._root}/{_MARK}"
        try:
            if self._plan.clean_rounds:
                self._clean(number, is_staged=completion_marks.is_put(mark))
            if completion_marks.is_put(mark):
                return
            self._folders()
            if not completion_marks.is_put(begun):
                self._clear()
                completion_marks.put(begun)
            self._code()
            for planned in self._plan.inputs:
                self._input(planned)
            if self._remote is not None:
                self._remote.stage(self._progress)
            self._join_outputs()
            completion_marks.put(mark)
            failpoint("agent.staged")
        except OSError as error:
            raise _refusal(error, self._root) from error

    def _clean(self, number: int, *, is_staged: bool) -> None:
        """Makes code and outputs what they were before the first round; where nothing is staged, that follows."""
        if clean_round.is_used(self._root, number):
            clean_round.clear(self._root)
            if is_staged:
                self._folders()
                self._code()
                self._join_outputs()
        clean_round.record(self._root, number)

    def _clear(self) -> None:
        """Takes away what an earlier start of the machine brought: its disk may not have taken all of it."""
        completion_marks.take(f"{self._root}/{completion_marks.PREPARED}")  # The preparation's results were there.
        inputs = f"{self._root}/inputs"
        names = os.listdir(inputs) if os.path.isdir(inputs) else []
        # A mount has nothing on the disk: `mounting/mounts.py` makes it.
        names = [name for name in names if not os.path.isdir(f"{self._root}/mounts/{name}")]
        for place in (folder_layout.code_folder(self._root), *(f"{inputs}/{name}" for name in names)):
            _free(place)
            remove(place)

    def _folders(self) -> None:
        os.makedirs(self._checkpoints, exist_ok=True)
        own = folder_layout.working_output(self._plan.outputs)
        folders = [own, *(o.name for o in self._plan.outputs if o.type != "uri_file")]
        for name in folders:
            os.makedirs(folder_layout.output_path(self._root, name), exist_ok=True)

    def _code(self) -> None:
        place = folder_layout.code_folder(self._root)
        if os.path.exists(place):
            return
        if self._plan.code is None:
            os.makedirs(place)
            return
        self._progress("fetching the code")
        self._unpack(self._plan.code, place)

    def _input(self, planned: InputPlan) -> None:
        place = folder_layout.input_path(self._root, planned)
        if planned.uri.startswith("snapshot:"):
            self._snapshot_input(planned, place)
        elif planned.uri.startswith("file:"):
            source = folder_layout.file_path(planned.uri)
            _check_readable(planned, source)
            if place != source and not os.path.exists(place):
                self._copy(planned, source, place)

    def _snapshot_input(self, planned: InputPlan, place: str) -> None:
        if os.path.exists(place):
            return
        self._progress(f"fetching input {planned.name}")
        if planned.type != "uri_file":
            self._unpack(planned.uri, place)
            return
        folder = f"{place}.folder"
        if not os.path.isdir(folder):  # A killed agent may have left it complete.
            self._unpack(planned.uri, folder)
        files = os.listdir(folder)
        if len(files) != 1:
            raise RefusedError(
                f"input {planned.name} is one file, but its snapshot has {len(files)} entries",
                where=f"inputs.{planned.name}",
                fix="Use type uri_folder for a folder.",
            )
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.replace(f"{folder}/{files[0]}", place)
        os.rmdir(folder)

    def _unpack(self, snapshot: str, place: str) -> None:
        bring(self._link, snapshot.removeprefix("snapshot:"), place, self._progress)

    def _copy(self, planned: InputPlan, source: str, place: str) -> None:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        part = fresh(place)
        if os.path.isdir(source):
            try:
                shutil.copytree(source, part, copy_function=self._copier(planned.name))
            except shutil.Error as error:  # A folder in it can't be read, or not be written here.
                where, _, why = error.args[0][0]
                raise _uncopied(planned.name, where, str(why)) from None
        else:
            self._copier(planned.name)(source, part)
        os.rename(part, place)

    def _copier(self, name: str) -> Callable[[str, str], object]:
        copied = 0

        def copy(source: str, target: str) -> None:
            nonlocal copied
            try:
                sparse_files.copy(source, target)
            except OSError as error:  # The first error ends the copy: `copytree` would continue with the other files.
                raise _copy_refusal(name, source, error) from None
            copied += os.path.getsize(target)
            self._progress(f"copying input {name}: {copied / (1 << 20):.0f} MiB")

        return copy

    def _join_outputs(self) -> None:
        """Makes `./outputs` of the ranks the default output, unless the code has something else of that name."""
        here = f"{folder_layout.code_folder(self._root)}/outputs"
        output = folder_layout.output_path(self._root, folder_layout.working_output(self._plan.outputs))
        if os.path.islink(here) or os.path.isfile(here):
            return
        if os.path.isdir(here):
            _hand_over(here, output)
        os.symlink(output, here)


def _free(place: str) -> None:
    """Unmounts what is left in the folder, which the attempt must not remove. Raises StorageError."""
    from drumbeat.node.inputs.mounting.unmounting import unmount_all

    if not os.path.islink(place) and (left := unmount_all(place, itself=True)):
        raise StorageError(
            f"{place} has to be staged again, but something that is mounted there can't be unmounted",
            where=left[0],
            fix="Unmount it on the node, then run the job again.",
        )


def _hand_over(here: str, target: str) -> None:
    """Moves the folder's contents into another one, without replacing what ranks have written."""
    for name in os.listdir(here):
        source, place = f"{here}/{name}", f"{target}/{name}"
        if _is_folder(place) and _is_folder(source):
            _hand_over(source, place)
        elif not _is_written(place, source):
            os.replace(source, place)
    remove(here)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _is_written(place: str, source: str) -> bool:
    """Whether a rank wrote this file: those that come with the code have the archive's time."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(place)
        return status.st_size > 0 and status.st_mtime_ns != os.lstat(source).st_mtime_ns
    return False


def _check_readable(planned: InputPlan, path: str) -> None:
    is_folder = os.path.isdir(path)
    where = f"inputs.{planned.name}"
    if not os.path.exists(path):
        raise RefusedError(
            f"{path} doesn't exist on this node",
            where=where,
            fix="Put it there, or name a path that every node of this compute has.",
        )
    if planned.type == "uri_file" and is_folder:
        raise RefusedError(f"{path} is a folder", where=where, fix="Use type uri_folder, or name a file in it.")
    if planned.type == "uri_folder" and not is_folder:
        raise RefusedError(f"{path} is a file", where=where, fix="Use type uri_file, or name its folder.")
    if not os.access(path, os.R_OK | os.X_OK if is_folder else os.R_OK):
        raise RefusedError(
            f"{path} can't be read by user {os.getuid()} on this node",
            where=where,
            fix="Give that user the right to read it.",
        )


def _copy_refusal(name: str, source: str, error: OSError) -> DrumbeatError:
    """Returns the message for a file of an input that can't be copied."""
    if isinstance(error, shutil.SpecialFileError):
        what = f"input {name} has something that is neither a file nor a folder"
        return RefusedError(what, where=source, fix="Remove it, or use mode ro_mount, which copies nothing.")
    if os.path.islink(source) and not os.path.exists(source):
        what = f"input {name} has a link to {os.readlink(source)}, and nothing is there"
        return RefusedError(what, where=source, fix="Remove the link, or use mode ro_mount, which copies nothing.")
    return _uncopied(name, error.filename or source, error.strerror or str(error))


def _uncopied(name: str, where: str, why: str) -> StorageError:
    fix = "Make room, or give the right to read and write there, then run the job again."
    return StorageError(f"input {name} can't be copied: {why}", where=where, fix=fix)


def _refusal(error: OSError, root: str) -> StorageError:
    return StorageError(
        f"staging failed: {error.strerror or error}",
        where=str(error.filename or root),
        fix="Make room or give the right to write there, then run the job again.",
    )
