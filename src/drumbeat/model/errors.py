"""The tree of errors: every error that drumbeat raises on purpose.

    DrumbeatError
    ├── SpecError            bad_job            the job file is invalid
    ├── RefusedError         refused            a valid request that can't be carried out here
    │   ├── NotYetError      not_yet            a key whose service this version doesn't have
    │   ├── UnknownNameError unknown_name       no such compute or environment here
    │   └── TooBigError      too_big            a data address that lists more than drumbeat reads
    ├── NotFoundError        not_found          no such job, file or alias
    ├── ConflictError        conflict           it exists already, or has ended
    ├── StaleError           stale              sent by an old server, attempt or round
    ├── UnauthorizedError    unauthorized       no token, or an invalid one
    ├── ForbiddenError       forbidden          a host, origin or path that isn't allowed
    │   └── CertificateError untrusted_certificate  a store's certificate that isn't trusted
    ├── UnreachableError     unreachable        no server answers
    │   └── NoConnectionError no_connection    nothing answers: no such host, no route, connection refused
    ├── VersionError         version_mismatch   incompatible client and server
    ├── EngineError          engine             the machine or the scheduler refused
    └── StorageError         storage            a disk or a database failed
        └── AwayError        storage_away       the server's database, for the moment
            └── StandbyError standby            another server is the active one

Each has four parts for the user: what, where, the values, what to do. The same four travel as JSON (`as_dict`,
`from_dict`), so an error raised in the server is the same error in the terminal. Never raise a bare
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
    """Says what went wrong, where, and what to do; `fields` holds the single problems where there are several."""

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
    """The job file, or the object made in Python, is invalid."""

    code = "bad_job"

    @classmethod
    def from_problems(cls, problems: list[Problem]) -> SpecError:
        """Gives one error that carries all problems and shows the first."""
        first = problems[0]
        return cls(first.what, where=first.where, fix=first.fix, fields=tuple(problems))


class RefusedError(DrumbeatError):
    """The request is valid, but this server cannot carry it out."""

    code = "refused"


class NotYetError(RefusedError):
    """The job uses a key whose service this version of drumbeat doesn't have."""

    code = "not_yet"


class UnknownNameError(RefusedError):
    """No compute, environment or instance type has this name here, and no alias leads to one."""

    code = "unknown_name"


class TooBigError(RefusedError):
    """A data address lists more than drumbeat reads: too many files, or a page that is too long."""

    code = "too_big"


class NotFoundError(DrumbeatError):
    """There is no such job, file, snapshot or alias."""

    code = "not_found"


class ConflictError(DrumbeatError):
    """The object exists already, or its state no longer allows the request."""

    code = "conflict"


class StaleError(DrumbeatError):
    """The message came from a server, attempt or round that has been replaced; its sender must stop its work."""

    code = "stale"


class UnauthorizedError(DrumbeatError):
    """The request has no token, or an invalid one."""

    code = "unauthorized"


class ForbiddenError(DrumbeatError):
    """The host name, origin or path isn't allowed."""

    code = "forbidden"


class CertificateError(ForbiddenError):
    """The certificate of a store isn't trusted: it has expired, is for another name, or its authority isn't known."""

    code = "untrusted_certificate"


class UnreachableError(DrumbeatError):
    """No server answers."""

    code = "unreachable"


class NoConnectionError(UnreachableError):
    """Nothing answers at the address: no such host, no route to it, or it refuses the connection."""

    code = "no_connection"


class VersionError(DrumbeatError):
    """The versions of client and server are incompatible."""

    code = "version_mismatch"


class EngineError(DrumbeatError):
    """The machine or the cluster's scheduler refused the request."""

    code = "engine"


class StorageError(DrumbeatError):
    """A disk or a database failed: full, read-only, no permission, unreachable."""

    code = "storage"


class AwayError(StorageError):
    """The server's database can't answer now: it is starting, busy or full. Try again: requests are idempotent."""

    code = "storage_away"


class StandbyError(AwayError):
    """Another server over the same database is the active one: ask that one."""

    code = "standby"


DEFECT = DrumbeatError.code
"""The code of an internal error of the server: the same request may fail again."""


def every_error() -> dict[str, type[DrumbeatError]]:
    """Maps each code to the class that declares it."""
    classes: dict[str, type[DrumbeatError]] = {}
    open_ones: list[type[DrumbeatError]] = [DrumbeatError]
    while open_ones:
        cls = open_ones.pop()
        if "code" in vars(cls):  # A process's own kind of an error has the code of the class that crosses processes.
            classes[cls.code] = cls
        open_ones.extend(cls.__subclasses__())
    return classes


def from_dict(wire: dict[str, Any]) -> DrumbeatError:
    """Reads the error that `as_dict` wrote; an unknown code becomes a plain DrumbeatError."""
    cls = every_error().get(str(wire.get("code", "")), DrumbeatError)
    fields = tuple(Problem(p.get("what", ""), p.get("where", ""), p.get("fix", "")) for p in wire.get("fields", ()))
    return cls(
        str(wire.get("what", "unknown error")),
        where=str(wire.get("where", "")),
        fix=str(wire.get("fix", "")),
        fields=fields,
    )
