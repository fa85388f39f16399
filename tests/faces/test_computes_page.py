"""The computes' reference page and its examples."""

import pytest

from drumbeat.jobfile.compute.computes import CLASSES, load_compute
from tools import make_computes_docs


def test_page_matches_the_models():
    assert make_computes_docs.PAGE.read_text(encoding="utf-8") == make_computes_docs.render_page()


@pytest.mark.parametrize("kind", CLASSES)
def test_every_type_has_a_valid_example(kind: str, tmp_path):
    file = tmp_path / "compute.yml"
    file.write_text(make_computes_docs.EXAMPLES[kind])
    assert isinstance(load_compute(file), CLASSES[kind])
    assert make_computes_docs.EXAMPLES[kind] in make_computes_docs.PAGE.read_text(encoding="utf-8")
