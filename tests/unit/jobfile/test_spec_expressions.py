"""`${{ }}` and `$[[ ]]`: what they point at, how they are filled, and what is refused."""

import pytest

from drumbeat.jobfile import from_dict, references, render
from drumbeat.model.errors import SpecError


@pytest.mark.feature("J3")
@pytest.mark.parametrize(
    ("text", "kind", "name", "job"),
    [
        ("${{inputs.x}}", "inputs", "x", ""),
        ("${{ outputs.my_out }}", "outputs", "my_out", ""),
        ("${{search_space.lr}}", "search_space", "lr", ""),
        ("${{parent.inputs.x}}", "parent.inputs", "x", ""),
        ("${{parent.outputs.x}}", "parent.outputs", "x", ""),
        ("${{parent.jobs.s.outputs.y}}", "parent.jobs.outputs", "y", "s"),
        ("${{jobs.s.outputs.y}}", "parent.jobs.outputs", "y", "s"),
        ("${{parent.jobs.s.inputs.y}}", "parent.jobs.inputs", "y", "s"),
        ("${{name}}", "name", "", ""),
    ],
)
def test_every_form_is_read(text: str, kind: str, name: str, job: str) -> None:
    (found,) = references(f"a {text} b")
    assert (found.kind, found.name, found.job, found.text, found.start) == (kind, name, job, text, 2)


@pytest.mark.feature("J3")
def test_a_template_is_filled_in_order() -> None:
    values = {"a": "1", "b": "2"}
    assert render("x ${{inputs.a}}${{ inputs.b }} y", lambda found: values[found.name]) == "x 12 y"


@pytest.mark.feature("J3")
@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("a $[[--o ${{inputs.yes}} ]]b", "a --o 1 b"),
        ("a $[[--o ${{inputs.no}} ]]b", "a b"),
        ("$[[${{inputs.yes}}${{inputs.no}}]]", ""),
        ("$[[ always ]]", " always "),
        ("if [[ -f a ]]; then", "if [[ -f a ]]; then"),
        ("$HOME ${X} {{y}} $(z)", "$HOME ${X} {{y}} $(z)"),
        ("", ""),
    ],
)
def test_brackets_stay_only_where_everything_inside_has_a_value(template: str, filled: str) -> None:
    assert render(template, lambda found: "1" if found.name == "yes" else None) == filled


@pytest.mark.feature("J3")
def test_a_value_that_isnt_there_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match=r"\$\{\{inputs\.x\}\} has no value. Set it, or put its use in"):
        render("a ${{inputs.x}}", lambda _: None)


@pytest.mark.feature("J3")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${{inputs.}}", "`${{inputs.}}` isn't an expression"),
        ("${{}}", "`${{}}` isn't an expression"),
        ("${{ inputs }}", "`${{ inputs }}` isn't an expression"),
        ("${{inputs.a b}}", "isn't an expression"),
        ("${{secrets.x}}", "isn't an expression"),
        ("${{inputs.x", "`${{inputs.x` is never closed with `}}`"),
        ("$[[ a", "`$[[ a` is never closed with `]]`"),
        ("$[[ a $[[ b ]] ]]", "a `$[[` inside of another `$[[`"),
    ],
)
def test_a_malformed_expression_is_refused(text: str, message: str) -> None:
    for read in (references, lambda template: render(template, lambda _: "")):
        with pytest.raises(SpecError) as caught:
            read(text)
        assert message in str(caught.value)
        assert "Valid: ${{inputs.x}}" in str(caught.value)


@pytest.mark.feature("J3")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("${{inputs.lt}}", "there is no input `lt`. Did you mean `lr`? There are: lr, opt, data."),
        ("${{outputs.m}}", "there is no output `m`. Add it under `outputs:`."),
        ("${{search_space.lr}}", "${{search_space.lr}} has no meaning here"),
        ("${{parent.inputs.lr}}", "has no meaning here"),
        ("${{inputs.opt}}", "is optional and may have no value here. Put its use in `$[[ ]]`"),
        ("${{inputs.data.part}}", "`data` has no parts to name"),
        ("${{inputs.lr", "is never closed"),
    ],
)
def test_a_command_asks_only_for_what_the_job_has(command: str, message: str) -> None:
    inputs = {"lr": 0.1, "opt": {"type": "number", "optional": True}, "data": {"path": "x"}}
    with pytest.raises(SpecError) as caught:
        from_dict({"command": f"python {command}", "environment": "e", "inputs": inputs})
    assert message in str(caught.value)
    assert caught.value.where == "job.command"
    with pytest.raises(SpecError) as caught:
        from_dict({"command": "x", "inputs": inputs, "drumbeat": {"prepare": f"echo {command}"}})
    assert message in str(caught.value)
    assert caught.value.where == "job.drumbeat.prepare"


@pytest.mark.feature("J3")
def test_an_optional_input_may_be_used_in_brackets_and_one_with_a_default_anywhere() -> None:
    inputs = {"a": {"type": "number", "optional": True}, "b": {"type": "number", "optional": True, "default": 1}}
    command = "$[[ ${{inputs.a}} ]] ${{inputs.b}} ${{name}}"
    assert from_dict({"command": command, "environment": "e", "inputs": inputs, "drumbeat": {"prepare": command}})


@pytest.mark.feature("J3")
def test_an_outputs_path_may_name_the_job_and_nothing_unknown() -> None:
    good = {"command": "x", "environment": "e", "outputs": {"o": {"path": "azureml://datastores/d/paths/${{name}}/"}}}
    assert from_dict(good)
    bad = {"command": "x", "environment": "e", "outputs": {"o": {"path": "a/${{inputs.x}}"}}}
    with pytest.raises(SpecError, match="there is no input `x`"):
        from_dict(bad)
