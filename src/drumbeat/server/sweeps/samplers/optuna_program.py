"""The program that runs Optuna: `python -m drumbeat.server.sweeps.samplers.optuna_program IDLE_S`.

It reads queries from stdin and writes answers to stdout. `_frozen` handles failed trials.

It keeps no state between queries: each contains all trials, from which the study is built. The sampler (TPE) gets a
seed for each trial from the sweep's seed and the trial's number, so the same query always has the same answer.
"""

from __future__ import annotations

import json
import os
import selectors
import sys
import warnings
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib import import_module
from typing import Any, cast

from pydantic import TypeAdapter

from drumbeat.core.sweeps.random_sampling import stepped
from drumbeat.core.sweeps.trial_values import Value, Values
from drumbeat.jobfile.sweeping.search_space import Choice, QUniform, SearchFunction, SearchValue, Uniform

Space = Mapping[str, object]
"""Search functions by name; in a branch of a choice, also constants."""
SPACE: TypeAdapter[dict[str, SearchValue]] = TypeAdapter(dict[str, SearchValue])


def main() -> None:
    """Answers queries until the input ends, or none has come for so many seconds."""
    idle_s = float(sys.argv[1])
    # The output of libraries mustn't get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in _lines(0, idle_s):
        try:
            answer: dict[str, Any] = {"values": answer_question(json.loads(line))}
        except Exception as error:  # noqa: BLE001 (the server raises what this process could not answer)
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _lines(source: int, idle_s: float) -> Iterator[bytes]:
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while selector.select(idle_s):
            chunk = os.read(source, 1 << 16)
            if not chunk:
                return
            *lines, buffer = (buffer + chunk).split(b"\n")
            yield from lines


def _optuna() -> Any:
    """Imports Optuna at the first query, by name, so that types can be checked without it."""
    return import_module("optuna")


def answer_question(question: Mapping[str, Any]) -> list[dict[str, Value]]:
    """Returns the values that TPE suggests for the next trials. Each counts as running for those after it."""
    space = SPACE.validate_python(question["space"])
    study = _study(space, question)
    seed, first = question["seed"], len(question["trials"])
    return [_suggest(study, space, _seed(seed, first + place)) for place in range(question["count"])]


def _study(space: Mapping[str, SearchFunction], question: Mapping[str, Any]) -> Any:
    warnings.simplefilter("ignore")  # constant_liar is called experimental since 2020
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction=question["goal"])
    study.add_trials([_frozen(space, trial) for trial in question["trials"]])
    return study


def _frozen(space: Mapping[str, SearchFunction], trial: Mapping[str, Any]) -> Any:
    """Converts a trial to Optuna's."""
    trials = _optuna().trial
    params, distributions = dict[str, Any](), dict[str, Any]()
    for path, distribution, value in iter_parameters(space, trial["values"]):
        params[path], distributions[path] = value, distribution
    value, state = trial["value"], trial["state"]
    if state == "running":
        return trials.create_trial(state=trials.TrialState.RUNNING, params=params, distributions=distributions)
    if state == "failed":
        return trials.create_trial(state=trials.TrialState.FAIL, params=params, distributions=distributions)
    return trials.create_trial(value=value, params=params, distributions=distributions)


def _suggest(study: Any, space: Space, seed: int) -> dict[str, Value]:
    # constant_liar: running trials count as bad ones, so that parallel trials don't try the same values.
    study.sampler = _optuna().samplers.TPESampler(seed=seed, constant_liar=True)
    return _values(study.ask(), space, "")


def _values(trial: Any, space: Space, above: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, function in space.items():
        path = f"{above}{name}"
        if isinstance(function, Choice):
            place: int = trial.suggest_categorical(path, tuple(range(len(function.values))))
            option = function.values[place]
            values[name] = _values(trial, option, f"{path}.{place}.") if isinstance(option, Mapping) else option
        elif isinstance(function, QUniform):
            low, high = _steps(function)
            values[name] = stepped(trial.suggest_int(path, low, high) * function.q, function.q)
        elif isinstance(function, Uniform):
            values[name] = trial.suggest_float(path, function.min_value, function.max_value)
        else:
            values[name] = cast("Value", function)
    return values


def iter_parameters(space: Space, values: Values, above: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields path, Optuna's distribution and value of each function that a trial has drawn from."""
    kinds = _optuna().distributions
    for name, function in space.items():
        path, value = f"{above}{name}", values[name]
        if isinstance(function, Choice):
            place = _place(function, value)
            option = function.values[place]
            yield path, kinds.CategoricalDistribution(tuple(range(len(function.values)))), place
            if isinstance(option, Mapping):
                yield from iter_parameters(option, cast("Values", value), f"{path}.{place}.")
        elif isinstance(function, QUniform):
            yield path, kinds.IntDistribution(*_steps(function)), round(cast("float", value) / function.q)
        elif isinstance(function, Uniform):
            yield path, kinds.FloatDistribution(function.min_value, function.max_value), float(cast("float", value))


def _place(choice: Choice, value: Value) -> int:
    """Returns the index of the option with a value; for equal options the first, as a trial can't distinguish them."""
    for place, option in enumerate(choice.values):
        if _can_produce(option, value):
            return place
    raise ValueError(f"{value!r} isn't among the values of the choice")


def _can_produce(function: object, value: Value) -> bool:
    """Whether this value can come from a function, branch or constant."""
    match function:
        case Choice():
            return any(_can_produce(option, value) for option in function.values)
        case QUniform():
            low, high = _steps(function)
            return not isinstance(value, Mapping | str) and low <= round(value / function.q) <= high
        case Uniform():
            return not isinstance(value, Mapping | str) and function.min_value <= value <= function.max_value
        case Mapping():
            branch = cast("Space", function)
            is_same = isinstance(value, Mapping) and branch.keys() == value.keys()
            return is_same and all(_can_produce(branch[name], part) for name, part in cast("Values", value).items())
        case _:
            return type(function) is type(value) and function == value


def _steps(function: QUniform) -> tuple[int, int]:
    return round(function.min_value / function.q), round(function.max_value / function.q)


def _seed(seed: int, number: int) -> int:
    return int.from_bytes(sha256(f"{seed}/{number}".encode()).digest()[:4])


if __name__ == "__main__":
    main()
