"""The states of optimizers by the names of their parameters: read, prepared for a checkpoint, and set.

torch's own functions create missing states by a step with zero gradients. That would be a step that the training hasn't
done, and a state that its checkpoint doesn't have. So a step is only made for optimizers into which a checkpoint is
loaded, and only for parameters whose states it has.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import RefusedError

if TYPE_CHECKING:
    import torch
    from torch import nn

Path = tuple[Any, ...]
"""The path of a value in nested containers, as torch.distributed.checkpoint records it beside each key."""
Entries = Mapping[Path, Any]
"""The metadata of torch.distributed.checkpoint for each value of a checkpoint."""


def check_one_optimizer_each(optimizers: Iterable[Any], where: str) -> None:
    """Refuses optimizers that share a parameter: a checkpoint has one state for each name."""
    owners: dict[int, int] = {}
    for at, optimizer in enumerate(optimizers):
        for parameter in _parameters(optimizer):
            if owners.setdefault(id(parameter), at) != at:
                what = f"optimizers {owners[id(parameter)]} and {at} have a parameter in common"
                fix = "Give each parameter to one optimizer, or save only the optimizer that is in use."
                raise RefusedError(what, where=where, fix=fix)


def collect_states(model: nn.Module, optimizers: list[Any]) -> dict[str, Any]:
    """Returns the states by parameter, and the options of each group under the name of its first parameter.

    Parameters without a state are missing.
    """
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    if not optimizers:
        return {}
    with _without_steps(optimizers):
        states: Any = get_optimizer_state_dict(model, optimizers)
    return {
        **states,
        "param_groups": {group["params"][0]: group for group in states["param_groups"] if group["params"]},
    }


def wanted_states(model: nn.Module, optimizers: list[Any], saved: Entries) -> dict[str, Any]:
    """Returns the targets for the states of a checkpoint: tensors of the same sizes, in the same shards.

    saved: the optimizers' part of the checkpoint. States of other parameters aren't included.
    """
    if not optimizers:
        return {}
    wanted: dict[str, Any] = {"state": {}}
    for optimizer in optimizers:
        names = _names(model, optimizer)
        has_state = {path[1] for path in saved if path[0] == "state"} & {*itertools.chain.from_iterable(names)}
        made = _made_by_a_step(model, optimizer, names, has_state) if has_state else {}
        wanted["state"] |= {name: state for name, state in made.items() if name in has_state}
        parameters = dict(_named(optimizer, names))
        has_state = {as_text(path) for path in value_paths(made)}
        for path, entry in saved.items():
            if path[0] == "state" and path[1] in parameters and as_text(path[1:]) not in has_state:
                _put(wanted, path, _empty_for(entry, parameters[path[1]]))
    for path, entry in saved.items():
        if path[0] == "param_groups":
            _put(wanted, path, _empty_for(entry, None))
    return wanted


def value_paths(states: Any, within: Path = ()) -> Iterator[Path]:
    """Yields the paths of the values in nested containers."""
    items = _items(states)
    if items is None:
        yield within
        return
    for key, value in items:
        yield from value_paths(value, (*within, key))


def as_text(path: Path) -> tuple[str, ...]:
    """Returns a path with string keys, as torch.distributed.checkpoint has for mappings."""
    return tuple(map(str, path))


def set_states(model: nn.Module, optimizers: list[Any], saved: dict[str, Any], where: str) -> None:
    """Sets the states and options of a checkpoint. A parameter without a state in it has none afterwards.

    Raises RefusedError if the checkpoint lacks options that the kind of optimizer needs.
    """
    groups: Any = saved.get("param_groups", {})
    groups = [*(groups.values() if isinstance(groups, Mapping) else groups)]
    for optimizer in optimizers:
        names = _names(model, optimizer)
        options = [_options(optimizer, group, own, groups, where)
                   for group, own in zip(optimizer.param_groups, names, strict=True)]  # fmt: skip
        without = [one["params"][0] for one in options if one["params"] and not _find_group(one["params"][0], groups)]
        if stepped := [name for name in without if name in saved["state"]]:
            what = f"the checkpoint has a state of {stepped[0]}, but no options of its optimizer"
            fix = "Older versions of drumbeat mixed up stages of a pipeline: start with an empty folder."
            raise RefusedError(what, where=where, fix=fix)
        numbers = {name: number for number, name in enumerate(itertools.chain.from_iterable(names))}
        state = {numbers[name]: state for name, state in saved["state"].items() if name in numbers}
        groups_by_number = [{**one, "params": [numbers[name] for name in one["params"]]} for one in options]
        optimizer.load_state_dict({"state": state, "param_groups": groups_by_number})


def _options(optimizer: Any, group: dict[str, Any], names: list[str], groups: list[Any], where: str) -> dict[str, Any]:
    """Returns the options of a group, which the checkpoint has for its first parameter."""
    saved = _find_group(names[0], groups) if names else None
    if saved and (missing := sorted(optimizer.defaults.keys() - saved.keys())):
        what = f"the checkpoint has no {', '.join(missing)} for {names[0]}, as {type(optimizer).__name__} needs"
        fix = "Continue with the optimizer and the torch that saved it, or start with an empty folder."
        raise RefusedError(what, where=where, fix=fix)
    return {**group, **(saved or {}), "params": names}


def _find_group(name: str, groups: list[Any]) -> Any:
    return next((group for group in groups if name in group["params"]), None)


def _made_by_a_step(model: nn.Module, optimizer: Any, names: list[list[str]], has_state: set[Any]) -> dict[str, Any]:
    """Returns the states that a step with zero gradients creates for the parameters of these names, if possible.

    Only the optimizer knows their shards. The step changes nothing but weights and states, which the checkpoint's
    replace. It isn't possible with closures or sparse gradients (LBFGS, SparseAdam): then there are no states.
    """
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    # A parameter that is frozen now may have been trained before, and vice versa.
    steps = {id(one): name in has_state for name, one in _named(optimizer, names)}
    kept = [(one, one.grad, one.requires_grad) for one in _parameters(optimizer)]
    optimizer.state = defaultdict(dict)
    try:
        for one, _, _ in kept:
            one.grad = None
            if one.is_floating_point() or one.is_complex():
                one.requires_grad_(steps[id(one)])
        made: Any = get_optimizer_state_dict(model, optimizer)
    except Exception:  # Each kind of optimizer has its own errors.
        if any(hasattr(one, "placements") for one, _, _ in kept):
            raise
        optimizer.state = defaultdict(dict)
        return {}
    finally:
        for one, gradient, is_trained in kept:
            one.grad = gradient
            one.requires_grad_(is_trained)
    return made["state"]


@contextmanager
def _without_steps(optimizers: Iterable[Any]) -> Generator[None]:
    """Prevents torch's state functions from stepping an optimizer without a state: one gradient is enough."""
    import torch

    given: list[torch.Tensor] = []
    for optimizer in optimizers:
        parameters = [*_parameters(optimizer)]
        if parameters and not optimizer.state and all(one.grad is None for one in parameters):
            smallest = min(parameters, key=lambda one: one.numel())
            smallest.grad = torch.zeros_like(smallest)
            given.append(smallest)
    try:
        yield
    finally:
        for parameter in given:
            parameter.grad = None


def _names(model: nn.Module, optimizer: Any) -> list[list[str]]:
    """Returns the names of the parameters of each group, in order, as torch has them in states."""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    with _without_steps([optimizer]):
        states: Any = get_optimizer_state_dict(model, optimizer)
    return [[*group["params"]] for group in states["param_groups"]]


def _named(optimizer: Any, names: list[list[str]]) -> Iterator[tuple[str, Any]]:
    return zip(itertools.chain.from_iterable(names), _parameters(optimizer), strict=True)


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _empty_for(entry: Any, parameter: Any) -> Any:
    """Returns an empty tensor for one of a checkpoint, sharded if it has its parameter's size;
    None for other values.
    """
    import torch

    if not hasattr(entry, "chunks"):
        return None
    if parameter is not None and entry.size and entry.size == parameter.shape:
        return torch.zeros_like(parameter, dtype=entry.properties.dtype, requires_grad=False)
    device = parameter.device if parameter is not None and entry.size else "cpu"
    return torch.zeros(entry.size, dtype=entry.properties.dtype, device=device)


def _items(value: Any) -> list[tuple[Any, Any]] | None:
    """Returns the items of a container that torch.distributed.checkpoint searches for tensors; None = it isn't one."""
    return [*(value.items() if hasattr(value, "items") else enumerate(value))] if _is_container(value) else None


def _is_container(value: Any) -> bool:
    return isinstance(value, (Mapping, list))


def _put(root: Any, path: Path, value: Any) -> None:
    """Puts a value into nested containers, creating missing ones."""
    for key, after in itertools.pairwise(path):
        _make_room(root, key)
        if root[key] is None:
            root[key] = list[Any]() if isinstance(after, int) else dict[str, Any]()
        root = root[key]
    _make_room(root, path[-1])
    root[path[-1]] = value


def _make_room(container: Any, key: Any) -> None:
    if hasattr(container, "setdefault"):
        container.setdefault(key, None)
    else:
        container.extend([None] * (key + 1 - len(container)))
