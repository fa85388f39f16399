"""The private folder of a node's Ray (`launch.ray.place`): the cluster's token, and all that Ray writes for itself."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pkgutil
import shutil
from dataclasses import replace

from drumbeat.launch import ray
from drumbeat.protocol.errors import StorageError
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.roster import Roster

JOINING = "joining.py"
WHOLE_S = 300
"""How long the cluster may take to come together: importing Ray from a shared disk takes its time."""


def make(plan: Plan, roster: Roster, node: int, secret: str) -> str:
    """The folder, with what the node's ranks need in it. Raises StorageError."""
    folder = ray.place(roster.members[node])
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _check_own(folder)
        _write(ray.token_file(roster.members[node]), _token(plan, roster, secret))
        _write(f"{folder}/{JOINING}", (pkgutil.get_data("drumbeat.agent.launchers.ray", JOINING) or b"").decode())
    except OSError as error:
        what = f"Ray's folder can't be made: {error.strerror}"
        raise StorageError(what, where=folder, fix="Make room in /tmp, or the right to write there.") from error
    return folder


def waiting(each: ProcessSpec, plan: Plan, roster: Roster, node: int, python: str) -> ProcessSpec:
    """A rank of a node, as it begins: a node of Ray's when the head is in, the driver when all are."""
    if each.role == ray.HEAD:
        return each
    nodes = roster.members if each.role == ray.DRIVER else roster.members[:1]
    expected = [f"{ray.name(one.node)}=node {one.node} ({one.host}, {one.address})" for one in nodes]
    script = f"{ray.place(roster.members[node])}/{JOINING}"
    wait = (python, script, ray.head_address(plan, roster), str(WHOLE_S), *expected, "--")
    return replace(each, argv=(*wait, *each.argv))


def note(path: str, roster: Roster, node: int) -> None:
    """Writes down what is about to be made, for whoever must clear it."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(ray.place(roster.members[node]))


def clear_noted(path: str) -> None:
    """Removes what was noted there, if anything was and it is ours."""
    with contextlib.suppress(OSError):
        with open(path, encoding="utf-8") as file:
            folder = file.read()
        _check_own(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.unlink(path)


def _token(plan: Plan, roster: Roster, secret: str) -> str:
    """The same on every node of a round, and of no other."""
    told = f"ray {plan.job} {roster.attempt} {roster.round}"
    return hmac.new(secret.encode(), told.encode(), hashlib.sha256).hexdigest()


def _check_own(folder: str) -> None:
    """Raises OSError when somebody else made it: the token must not fall into their hands."""
    there = os.lstat(folder)
    if there.st_uid != os.geteuid() or there.st_mode & 0o77:
        raise OSError(13, f"{folder} belongs to somebody else")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=lambda name, how: os.open(name, how, 0o600)) as file:
        file.write(text)
