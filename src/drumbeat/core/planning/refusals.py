"""What refuses a job, collected: a user sees all that is to be changed at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from drumbeat.model.errors import DrumbeatError, Problem, RefusedError, SpecError

T = TypeVar("T")


class Refusals:
    """The refusals that parts of a plan have raised. passing: a transient error, which comes last."""

    def __init__(self, passing: type[DrumbeatError] | None = None) -> None:
        self._errors: list[DrumbeatError] = []
        self._passing = passing

    def attempt(self, make: Callable[[], T], otherwise: T) -> T:
        """Returns what `make` gives; where it refuses, keeps the refusal and returns `otherwise`."""
        try:
            return make()
        except (SpecError, RefusedError) as error:
            self.add(error)
            return otherwise

    def add(self, error: DrumbeatError) -> None:
        """Keeps a refusal."""
        self._errors.append(error)

    def raise_any(self) -> None:
        """Raises the only refusal, or an error that carries all problems and is of the kind of the first."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            first = min(self._errors, key=lambda one: self._passing is not None and isinstance(one, self._passing))
            problems = [problem for one in self._errors for problem in single_problems(one)]
            # Steps of a pipeline share problems, such as the name of a compute: each is reported once.
            alone = {(one.what, one.fix): one for one in reversed(problems)}
            fields = tuple(one for one in problems if alone[one.what, one.fix] is one)
            raise type(first)(first.what, where=first.where, fix=first.fix, fields=fields)


def single_problems(error: DrumbeatError) -> tuple[Problem, ...]:
    """Returns the single problems of an error."""
    return error.fields or (Problem(error.what, error.where, error.fix),)
