"""The outputs of steps: where each goes, with what the pipeline says of those that are its own."""

from __future__ import annotations

from collections.abc import Mapping

from drumbeat.jobfile.data.inputs_outputs import Output
from drumbeat.jobfile.pipelines.graph import bound_output
from drumbeat.jobfile.reading import expressions
from drumbeat.jobfile.reading.expressions import Reference
from drumbeat.jobfile.reading.model import set_keys

OF_PLACE = ("path", "mode", "name", "version", "path_on_compute")


def parent_output(value: object) -> str:
    """Returns the output of its pipeline that a step's output is bound to; "" = none."""
    text = value.path if isinstance(value, Output) else value
    return bound_output(text) if isinstance(text, str) and "${{" in text else ""


def step_outputs(
    declared: Mapping[str, Output], given: Mapping[str, object], around: Mapping[str, Output]
) -> dict[str, Output]:
    """Returns the outputs of a step. declared: by its component. around: of the pipeline that it is a step of."""
    return {name: _one(declared.get(name), given.get(name), around) for name in dict.fromkeys((*declared, *given))}


def _one(declared: Output | None, given: object, around: Mapping[str, Output]) -> Output:
    keys = _keys(declared) | (_keys(given) if isinstance(given, Output) else {})
    bound = parent_output(given)
    if bound:
        keys.pop("path", None)
        outer = _keys(around.get(bound))
        # The pipeline says where it goes; its type is the component's, if that has one.
        keys |= {key: value for key, value in outer.items() if key in OF_PLACE or key not in keys}
    return Output.made(keys)


def _keys(output: Output | None) -> dict[str, object]:
    return set_keys(output) if output is not None else {}


def placed(output: Output, name: str, words: Mapping[str, str], datastore: str = "") -> Output:
    """Returns an output with what its pipeline knows filled into its path; the rest its job fills in.

    words: what expressions mean, by their text. datastore: where an output without a path goes, "" = nowhere.
    """
    if output.path is None:
        path = f"azureml://datastores/{datastore}/paths/azureml/${{{{name}}}}/{name}/" if datastore else None
        return output.model_copy(update={"path": path}) if path else output

    def resolve(reference: Reference) -> str | None:
        if reference.kind == "output_name":
            return name
        key = f"{reference.kind}.{reference.name}" if reference.name else str(reference.kind)
        return words.get(key, reference.text)

    return output.model_copy(update={"path": expressions.render(output.path, resolve)})
