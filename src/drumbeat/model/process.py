"""One process to be started, with its environment in three columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

COMMAND_SERVER, MPI_COMMAND_SERVER = "open door", "door"
"""The roles of a process that runs commands of other nodes: all that come in a round, which the ranks don't need; or
mpirun's only one, which they do."""

SIDECAR = "DRUMBEAT_COMPANION"
"""The variable of a process beside the ranks that is none of them: the name of its service, or its session's id."""

MAX_WORD_BYTES = (32 << 12) - 1
"""The longest argument or variable (`NAME=value`) that Linux gives to a process (MAX_ARG_STRLEN, execve(2))."""


@dataclass(frozen=True)
class ProcessSpec:
    """What the supervisor starts for one rank.

    set: always given. defaulted: given where neither the job nor the node's environment has the name. scrubbed: name
    prefixes (ending in `*`) and names taken out of what the node's environment would pass on. path_first,
    modules_first: folders at the front of PATH and of PYTHONPATH. modules_last: folders at the end of PYTHONPATH. log:
    file for stdout and stderr, relative to the attempt's folder. joins: the socket at which the launcher's own child
    hands over what the process must have of it before it begins; "" = nothing. rendezvous: `address port` of the store
    beside it where Horovod's ranks meet, "" = it has none.
    """

    rank: int
    local_rank: int
    role: str
    argv: tuple[str, ...]
    cwd: str
    log: str
    set: dict[str, str] = field(default_factory=dict[str, str])
    defaulted: dict[str, str] = field(default_factory=dict[str, str])
    scrubbed: tuple[str, ...] = ()
    path_first: tuple[str, ...] = ()
    modules_first: tuple[str, ...] = ()
    modules_last: tuple[str, ...] = ()
    joins: str = ""
    rendezvous: str = ""

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The variables of the process, given those that the node would pass on."""
        kept = {name: value for name, value in inherited.items() if not is_scrubbed(name, self.scrubbed)}
        merged = {**self.defaulted, **kept, **self.set}
        if self.path_first:
            merged["PATH"] = ":".join((*self.path_first, merged.get("PATH", "/usr/local/bin:/usr/bin:/bin")))
        if self.modules_first or self.modules_last:
            folders = (*self.modules_first, merged.get("PYTHONPATH", ""), *self.modules_last)
            merged["PYTHONPATH"] = ":".join(filter(None, folders))
        return merged


def is_scrubbed(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a variable of this name is taken out."""
    return any(name == p or (p.endswith("*") and name.startswith(p[:-1])) for p in patterns)
