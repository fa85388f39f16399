"""Shares: file systems that every node of a compute is to have at one path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from drumbeat.jobfile.compute.compute_values import Absolute
from drumbeat.jobfile.reading.field_types import OneLine, pattern
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model
from drumbeat.model.shares import MOUNTED_BY

ShareName = Annotated[
    str, pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", "letters, digits, `-` and `_`, at most 32, no `-` or `_` first")
]
MountOption = Annotated[OneLine, pattern(r"[^\s-].*", "one option, without `-o` or `--`")]


class Share(Model):
    """A file system that every node of a compute has at the same path. Each job's nodes check it before they start."""

    noun: ClassVar[str] = "the share"

    name: ShareName = Field(description="Name of the share.")
    type: Annotated[Literal["path", "nfs", "smb", "sshfs", "s3"], AnyCase()] = Field(
        description="What must be mounted: `nfs`, `smb`, `sshfs`, `s3`; `path` = any folder that is there."
    )
    path: Absolute = Field(description="Path on every node.")
    source: OneLine | None = Field(
        default=None,
        description="What is mounted: `filer:/export` for nfs, `//filer/export` for smb, `user@host:/folder` for "
        "sshfs, `remote:folder` for rclone, with a remote of the nodes' own rclone configuration. When set, a mount of "
        "something else is refused.",
    )
    mount: bool = Field(
        default=False,
        description="Whether nodes mount it where it isn't mounted: `sshfs` by sshfs, `smb` and `s3` by rclone, as the "
        "user of the jobs.",
    )
    options: list[MountOption] = Field(
        default_factory=list[str],
        description="Options for `mount: true`: for sshfs those of `-o`, like `port=2222`; for rclone those of `--`, "
        "like `read-only`.",
    )
    writable: bool = Field(default=False, description="Whether jobs must be able to write to it.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.path.rstrip("/").count("/") == 0 or ".." in Path(self.path).parts:
            yield Contradiction(("path",), f"{self.path} can't be the path of a share", "Name a folder like `/data`.")
        if self.type == "path" and self.source is not None:
            yield Contradiction(("source",), "a share of type `path` has no source", "Leave it out.")
        if not self.mount:
            if self.options:
                yield Contradiction(("options",), "options are for a share that nodes mount", "Say `mount: true`.")
            return
        if self.type not in MOUNTED_BY:
            what = f"nodes don't mount shares of type `{self.type}`: that needs root"
            yield Contradiction(("mount",), what, "Have the machines mount it, and leave `mount` out.")
        elif self.source is None:
            yield Contradiction(("source",), "a share that nodes mount needs its source", "Write `source:`.")
