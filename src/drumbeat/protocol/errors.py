"""The tree of errors: everything that drumbeat refuses or fails with, on purpose.

    DrumbeatError
    ├── SpecError            bad_job            the job file says something that can't be meant
    ├── RefusedError         refused            well said, but it can't be done here
    │   ├── NotYetError      not_yet            a key whose service this version doesn't have
    │   ├── UnknownNameError unknown_name       a compute or environment that isn't known here
    │   └── TooBigError      too_big            more than the compute will ever have
    ├── NotFoundError        not_found          no such job, file, alias
    ├── ConflictError        conflict           the thing exists already, or has ended
    ├── StaleError           stale              an old server, attempt or round spoke
    ├── UnauthorizedError    unauthorized       no token, or a wrong one
    ├── ForbiddenError       forbidden          a host, origin or path that isn't allowed
    ├── UnreachableError     unreachable        no server answers
    │   └── NoConnectionError no_connection    nothing is at an address: no such host, no route, connection refused
    ├── VersionError         version_mismatch   client and server don't fit
    ├── EngineError          engine             the machine or the scheduler under us refused
    └── StorageError         storage            a disk or a database refused
        └── AwayError        storage_away       the server's database, which may answer soon

Each has four parts that a person reads: what, where, the values, what to do. The same four travel as JSON
(`as_dict`, `from_dict`), so an error raised in the server is the same error in the terminal. Never raise a bare
`DrumbeatError`; foreign exceptions are mapped where they enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong at one place.

    `where` is `file:line:column` for a file, a dotted key path for an object; `fix` is a sentence or "".
    """

    what: str
    where: str = ""
    fix: str = ""

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}. {self.fix}" if self.fix else head


class DrumbeatError(Exception):
    """What went wrong, where, and what to do; `fields` holds every single problem where there are several."""

    code: ClassVar[str] = "error"

    def __init__(self, what: str, *, where: str = "", fix: str = "", fields: tuple[Problem, ...] = ()) -> None:
        super().__init__(what, where, fix)
        self.what, self.where, self.fix, self.fields = what, where, fix, fields

    def __str__(self) -> str:
        if self.fields:
            return "\n".join(str(problem) for problem in self.fields)
        return str(Problem(self.what, self.where, self.fix))

    def as_dict(self) -> dict[str, Any]:
        """The wire form: `{code, what, where, fix, fields}`."""
        return {
            "code": self.code,
            "what": self.what,
            "where": self.where,
            "fix": self.fix,
            "fields": [{"what": p.what, "where": p.where, "fix": p.fix} for p in self.fields],
        }


class SpecError(DrumbeatError):
    """The job file, or the object made in Python, says something that can't be meant."""

    code = "bad_job"

    @classmethod
    def of(cls, problems: list[Problem]) -> SpecError:
        """One error that carries every problem found, first one first."""
        first = problems[0]
        return cls(first.what, where=first.where, fix=first.fix, fields=tuple(problems))


class RefusedError(DrumbeatError):
    """The request is well said, but it can't be done here."""

    code = "refused"


class NotYetError(RefusedError):
    """A key of the dialect whose service this version of drumbeat doesn't have."""

    code = "not_yet"


class UnknownNameError(RefusedError):
    """A compute, environment or instance type that isn't known here and has no alias."""

    code = "unknown_name"


class TooBigError(RefusedError):
    """The job asks for more than its compute will ever have."""

    code = "too_big"


class NotFoundError(DrumbeatError):
    """No such job, file, snapshot or alias."""

    code = "not_found"


class ConflictError(DrumbeatError):
    """The thing exists already, or is past the point where this can be done to it."""

    code = "conflict"


class StaleError(DrumbeatError):
    """A server, attempt or round that has been replaced spoke; it must stop what it does."""

    code = "stale"


class UnauthorizedError(DrumbeatError):
    """No token, or a wrong one."""

    code = "unauthorized"


class ForbiddenError(DrumbeatError):
    """A host name, an origin or a path that isn't allowed."""

    code = "forbidden"


class UnreachableError(DrumbeatError):
    """No server answers."""

    code = "unreachable"


class NoConnectionError(UnreachableError):
    """Nothing is at the address: no such host, no route to it, or it refuses the connection."""

    code = "no_connection"


class VersionError(DrumbeatError):
    """Client and server are of versions that don't fit each other."""

    code = "version_mismatch"


class EngineError(DrumbeatError):
    """The machine or the scheduler under drumbeat refused."""

    code = "engine"


class StorageError(DrumbeatError):
    """A disk or a database refused: full, read-only, no permission, unreachable."""

    code = "storage"


class AwayError(StorageError):
    """The server's database can't answer now: it starts, is busy, is full. Ask again: nothing is done twice."""

    code = "storage_away"


def every_error() -> dict[str, type[DrumbeatError]]:
    """Code to class, for the whole tree."""
    found: dict[str, type[DrumbeatError]] = {}
    open_ones: list[type[DrumbeatError]] = [DrumbeatError]
    while open_ones:
        cls = open_ones.pop()
        found[cls.code] = cls
        open_ones.extend(cls.__subclasses__())
    return found


def from_dict(wire: dict[str, Any]) -> DrumbeatError:
    """The error that `as_dict` wrote; an unknown code becomes a plain DrumbeatError."""
    cls = every_error().get(str(wire.get("code", "")), DrumbeatError)
    fields = tuple(Problem(p.get("what", ""), p.get("where", ""), p.get("fix", "")) for p in wire.get("fields", ()))
    return cls(
        str(wire.get("what", "unknown error")),
        where=str(wire.get("where", "")),
        fix=str(wire.get("fix", "")),
        fields=fields,
    )
