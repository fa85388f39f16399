"""The job that fills a share of a compute: one node reads a folder of a datastore and copies it to the share."""

from __future__ import annotations

import posixpath
import shlex

from drumbeat.dialect.compute.computes import compute_from
from drumbeat.dialect.reading.error_messages import nearest
from drumbeat.protocol.api.computes import ComputeView
from drumbeat.protocol.errors import RefusedError, UnknownNameError

SCRIPT = """\
import os, shutil, sys, time

source, target = sys.argv[1:]
files = []
for above, folders, names in os.walk(source):
    folders.sort()
    files += [os.path.join(above, name) for name in sorted(names)]
sizes = {file: os.stat(file).st_size for file in files}
total, copied, kept, done, began, printed = sum(sizes.values()), 0, 0, 0, time.monotonic(), 0.0

def gib(amount):
    return f"{amount / (1 << 30):.2f} GiB"

def is_copied(file, place):
    try:
        copy, original = os.stat(place), os.stat(file)
    except OSError:
        return False
    return copy.st_size == original.st_size and copy.st_mtime >= original.st_mtime

for number, file in enumerate(files, 1):
    place = os.path.join(target, os.path.relpath(file, source))
    if is_copied(file, place):
        kept += 1
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copyfile(file, place + ".part")
        os.replace(place + ".part", place)
        copied += sizes[file]
    done += sizes[file]
    if time.monotonic() - printed > 2 or number == len(files):
        printed = time.monotonic()
        rate = copied / max(printed - began, 0.001) / (1 << 20)
        print(f"{gib(done)} of {gib(total)}, {number:,} of {len(files):,} files, {rate:.0f} MiB/s", flush=True)
print(f"{target} has {len(files):,} files; {kept:,} were there before", flush=True)
"""
"""Runs on the node. Files of the same size that aren't older stay, so that a second try goes on."""


def fill_job(compute: ComputeView, share: str, source: str, folder: str = "") -> dict[str, object]:
    """The job that copies what lies at an address of a store to a share. folder: below the share's path.

    Raises UnknownNameError, RefusedError.
    """
    plans = compute_from(dict(compute.spec)).share_plans if compute.spec else ()
    plan = next((one for one in plans if one.name == share), None)
    if plan is None:
        names = ", ".join(one.name for one in plans) or "none"
        what = f"compute {compute.name} has no share {share}; it has {names}"
        raise UnknownNameError(what, where="share", fix=nearest(share, [one.name for one in plans]))
    target = posixpath.normpath(posixpath.join(plan.path, folder)) if folder else plan.path
    if not plan.has(target):
        what = f"{target} lies outside of share {share}, which is {plan.path}"
        raise RefusedError(what, where="--to", fix="Name a folder below it.")
    command = f"python3 - \"${{{{inputs.source}}}}\" {shlex.quote(target)} <<'DRUMBEAT'\n{SCRIPT}DRUMBEAT\n"
    return {
        "command": command,
        "compute": compute.name,
        "display_name": f"fill {share} of {compute.name}",
        "experiment_name": "shares",
        "inputs": {"source": {"type": "uri_folder", "path": source, "mode": "ro_mount"}},
        "drumbeat": {"environment": "current"},
    }
