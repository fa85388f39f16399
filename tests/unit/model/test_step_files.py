"""The names of files of steps."""

import pytest

from drumbeat.model.step_files import is_step_file, step_file


@pytest.mark.feature("M16")
def test_names_are_those_of_mlflow():
    name = step_file("images", "val/samples", -3, 1795877508045, "0-1", "png")
    assert name == "images/val~samples+step+-3+timestamp+1795877508045+0-1.png"
    assert is_step_file(name)


@pytest.mark.parametrize(
    "name",
    [
        "images/dogs+step+3+timestamp+1795877508045+9648b8e5-1111-2222-3333-444444444444+compressed.webp",
        "images/a#b%step%3%timestamp%1795877508045%9648b8e5-1111-2222-3333-444444444444.png",
        step_file("histograms", "w", 0, 1, "0-0", "json"),
    ],
)
def test_files_of_steps_are_known(name: str):
    assert is_step_file(name)


@pytest.mark.parametrize(
    "name", ["images/a.png", "model/x+step+3+timestamp+1+a.png", "images/a/b+step+1+timestamp+1+a.png"]
)
def test_other_files_are_none_of_a_step(name: str):
    assert not is_step_file(name)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (("images", "x", 1, 1, "svg"), "files of 'images' don't end with 'svg'"),
        (("secrets", "x", 1, 1, "png"), "files of 'secrets' don't end with 'png'"),
        (("images", "../x", 1, 1, "png"), "a key has 1 to 150 letters"),
        (("images", "x+y", 1, 1, "png"), "a key has 1 to 150 letters"),
        (("images", "x", 1 << 63, 1, "png"), "a step has 64 bits"),
        (("images", "x", 1, -1, "png"), "a time is in milliseconds"),
    ],
)
def test_parts_that_make_no_file_are_refused(parts: tuple[str, str, int, int, str], why: str):
    kind, key, step, at_ms, ending = parts
    with pytest.raises(ValueError, match=why):
        step_file(kind, key, step, at_ms, "0-0", ending)
