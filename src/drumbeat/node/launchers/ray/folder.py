"""The private folder of a node's Ray (`launchers.ray.place`): the cluster's token, and Ray's own files."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pkgutil
import shutil
from dataclasses import replace

from drumbeat.launchers import ray
from drumbeat.model.errors import StorageError
from drumbeat.model.plan import Plan, RankTable
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster
from drumbeat.node.platform.files import require_own

SCRIPT = "wait_for_cluster.py"
COMPLETE_TIMEOUT_S = 300
"""How long the cluster may take to be complete: importing Ray from a shared disk is slow."""


def make(plan: Plan, roster: Roster, node: int, secret: str) -> str:
    """Creates the folder with the files that the node's ranks need, and returns it. Raises StorageError."""
    folder = ray.place(roster.members[node])
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        require_own(folder)
        _write(ray.token_file(roster.members[node]), _token(plan, roster, secret))
        _write(f"{folder}/{SCRIPT}", (pkgutil.get_data("drumbeat.node.launchers.ray", SCRIPT) or b"").decode())
    except OSError as error:
        what = f"Ray's folder can't be created: {error.strerror}"
        raise StorageError(what, where=folder, fix="Free space in /tmp, or grant write permission.") from error
    return folder


def waiting(each: ProcessSpec, plan: Plan, roster: Roster, node: int, python: str) -> ProcessSpec:
    """Returns a rank that waits before it begins: a Ray node for the head, the driver for all nodes."""
    if each.role == ray.HEAD:
        return each
    nodes = roster.members if each.role == ray.DRIVER else roster.members[:1]
    expected = [f"{ray.name(one.node)}=node {one.node} ({one.host}, {one.address})" for one in nodes]
    script = f"{ray.place(roster.members[node])}/{SCRIPT}"
    wait = (python, script, ray.head_address(plan, roster), str(COMPLETE_TIMEOUT_S), *expected, "--")
    return replace(each, argv=(*wait, *each.argv))


def note(path: str, roster: Roster, node: int) -> None:
    """Records the folder that is about to be created, for `clear_noted`."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(ray.place(roster.members[node]))


def clear_noted(path: str) -> None:
    """Removes the folder that the file names, if there is one and it is this user's."""
    with contextlib.suppress(OSError):
        with open(path, encoding="utf-8") as file:
            folder = file.read()
        require_own(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.unlink(path)


def _token(plan: RankTable, roster: Roster, secret: str) -> str:
    """Returns the token, which is the same on every node of a round and on no other."""
    seed = f"ray {plan.job} {roster.attempt} {roster.round}"
    return hmac.new(secret.encode(), seed.encode(), hashlib.sha256).hexdigest()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=lambda name, how: os.open(name, how, 0o600)) as file:
        file.write(text)
