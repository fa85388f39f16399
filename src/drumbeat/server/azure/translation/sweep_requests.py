"""Sweeps of Azure's API as documents of the dialect."""

from __future__ import annotations

from typing import Any, cast

from drumbeat.model.errors import RefusedError
from drumbeat.server.azure.translation import words
from drumbeat.server.azure.translation.arm_ids import without_nulls
from drumbeat.server.azure.translation.request_parts import Assets, Table, Translated, job_limits, run_keys, table

_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "choice": ("values",),
    "randint": ("upper",),
    "uniform": ("min_value", "max_value"),
    "loguniform": ("min_value", "max_value"),
    "quniform": ("min_value", "max_value", "q"),
    "qloguniform": ("min_value", "max_value", "q"),
    "normal": ("mu", "sigma"),
    "lognormal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "qlognormal": ("mu", "sigma", "q"),
}
_POLICIES = {"bandit": "bandit", "medianstopping": "median_stopping", "truncationselection": "truncation_selection"}


def sweep_document(properties: Table, assets: Assets) -> Translated:
    """Returns a sweep with the code of its trial. properties: of a job. Raises RefusedError, NotFoundError."""
    run = run_keys(table(properties.get("trial"), "trial"), assets, "trial.")
    space = table(properties.get("searchSpace"), "searchSpace")
    objective = words.snake_keys(properties.get("objective"))
    document = without_nulls(
        {
            "trial": run.document,
            "search_space": {key: search_value(one, key) for key, one in space.items()},
            "sampling_algorithm": sampling(properties.get("samplingAlgorithm")),
            "objective": {**objective, "goal": words.folded(objective.get("goal"))},
            "early_termination": termination_policy(properties.get("earlyTermination")),
            "limits": job_limits(properties.get("limits"), ("timeout", "trial_timeout")),
        }
    )
    return Translated(document, run.code)


def search_value(value: object, where: str) -> Table:
    """Returns a function of a search space. value: its name and arguments, as a list. Raises RefusedError."""
    parts = cast("list[Any]", value) if isinstance(value, list) else []
    function, given = parts if len(parts) == 2 else ("", None)
    keys = _FUNCTIONS.get(words.folded(function))
    if keys is None or not isinstance(given, list):
        fix = f'It is a list like `["uniform", [0.1, 0.9]]` of one of {", ".join(_FUNCTIONS)}.'
        raise RefusedError("this isn't a function of a search space", where=f"searchSpace.{where}", fix=fix)
    arguments = cast("list[Any]", given)
    if len(arguments) != len(keys):
        what = f"{function} takes {', '.join(keys)}: {len(arguments)} values given"
        raise RefusedError(what, where=f"searchSpace.{where}")
    made = dict(zip(keys, arguments, strict=True))
    if isinstance(values := made.get("values"), list):
        made["values"] = [_branch(one, where) for one in cast("list[Any]", values)]
    return {"type": words.folded(function), **made}


def _branch(value: Any, where: str) -> Any:
    """A choice may have tables, whose values may be functions again."""
    return search_space(value, where) if words.is_mapping(value) else value


def search_space(value: object, where: str) -> Table:
    """Returns the search space of a step. Raises RefusedError."""
    space = words.mapping(value)
    return {
        key: search_value(cast("object", one), f"{where}.{key}") if isinstance(one, list) else one
        for key, one in space.items()
    }


def sampling(value: object) -> Table | None:
    """Returns the sampling algorithm of a sweep."""
    given = words.snake_keys(value)
    kind = given.pop("sampling_algorithm_type", None)
    if given.get("rule"):
        given["rule"] = words.folded(given["rule"])
    return {"type": words.folded(kind), **given} if kind else None


def termination_policy(value: object) -> Table | None:
    """Returns the policy by which trials end early."""
    given = words.snake_keys(value)
    kind = given.pop("policy_type", given.pop("type", None))
    if not kind:
        return None
    made = {"type": _POLICIES.get(words.folded(kind), kind), **given}
    if made["type"] == "bandit":  # The client sends zero for the one that wasn't given.
        for key, other in (("slack_factor", "slack_amount"), ("slack_amount", "slack_factor")):
            if not made.get(key) and made.get(other):
                made.pop(key, None)
    return made
