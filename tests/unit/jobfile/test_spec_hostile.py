"""Files made to break the reader: each ends in one clear sentence, without building what it asks for."""

import pytest

from drumbeat.jobfile import loads
from drumbeat.jobfile.reading.yaml_tree import MAX_BYTES, MAX_LINES
from drumbeat.model.errors import SpecError

BOMB = "a0: &a0 [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12)
)
CHAIN = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 80))
HOSTILE = {
    "huge": ("x" * (MAX_BYTES + 1), "j: the file is larger than 1 MiB. Such files are a few pages of text."),
    "huge in bytes": ("é" * (MAX_BYTES // 2 + 1), "j: the file is larger than 1 MiB"),
    "lines": ("\n" * (MAX_LINES + 1), "j: the file has more than 50,000 lines"),
    "alias bomb": (BOMB, "written out, the aliases make more than 20,000 values"),
    "merge bomb": (MERGE_BOMB, "written out, the aliases make more than 20,000 values"),
    "deep aliases": (CHAIN, "nested more than 64 levels deep"),
    "cycle": ("a: &a [*a]", "j:1:8: `*a` stands inside of what it repeats"),
    "cycle in a mapping": ("a: &a {b: {c: *a}}", "`*a` stands inside of what it repeats"),
    "no anchor": ("a: *b", "j:1:4: no anchor is named `b`"),
    "deep flow": ("[" * 5000, "j:1:65: nested more than 64 levels deep"),
    "deep block": ("".join(" " * i + "a:\n" for i in range(200)), "nested more than 64 levels deep"),
    "many values": ("a: [" + "1," * 25000 + "]", "the file has more than 20,000 values"),
    "python tag": ("a: !!python/object/apply:os.system [id]", "j:1:4: the tag `tag:yaml.org,2002:python/object"),
    "own tag": ("!x\na: 1", "the tag `!x` isn't allowed. Job files hold plain values only."),
    "long tag": ("a: !" + "x" * 5000, "a word of more than 2,000 characters behind a `!`"),
    "directives": ("%a b\n" * 30, "more than 20 lines that begin with `%`"),
    "wrong tag": ("command: !!int x\nenvironment: e", "j:1:10: `x` isn't of the type that `!!int` says"),
    "mapping as key": ("? {a: b}\n: c", "a key must be a word, not a list or a mapping"),
    "merge of a word": ("<<: a", "`<<` takes a mapping or a list of mappings"),
    "raw nul": ("a: \0", "j: the file holds a character that text files don't have. Save it as UTF-8."),
    "lone surrogate": ("a: \ud800", "j: the file holds a character that text files don't have"),
    "escaped nul": ('command: "a\\0"\nenvironment: e', "`command`: a text can't hold a NUL character"),
    "escaped surrogate": ('command: "\\ud800"\nenvironment: e', "half a character"),
    "nul in a key": ('"a\\0b": 1', "unknown key `a\\x00b`"),
    "nan for a count": ("command: x\nenvironment: e\nresources: {instance_count: .nan}", "expected a finite number"),
    "endless number": ("command: x\nenvironment: e\nlimits: {timeout: 1" + "0" * 5000 + "}", "got `1000"),
    "overflow": ("command: x\nenvironment: e\ninputs: {a: 1e999}", "expected a finite number"),
    "endless name": ("command: x\nenvironment: e\nname: " + "x" * 100_000, "at most 255"),
    "endless key": ("? " + "x" * 100_000 + "\n: 1", "unknown key `xxx"),
    "unclosed expression": ('command: "${{' + " " * 100_000 + '"\nenvironment: e', "is never closed with `}}`"),
    "blank expression": ('command: "${{' + " " * 100_000 + '}}"\nenvironment: e', "isn't an expression"),
}


@pytest.mark.feature("J1")
@pytest.mark.parametrize(("text", "sentence"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_ends_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        loads(text, "j")
    said = str(caught.value)
    assert sentence in said
    assert max(map(len, said.splitlines())) < 1000
    assert "\0" not in said


def test_no_more_than_fifty_problems_are_told() -> None:
    keys = "".join(f"k{i}: 1\n" for i in range(500))
    with pytest.raises(SpecError) as caught:
        loads(keys, "j")
    assert len(caught.value.fields) == 51
    assert str(caught.value).endswith("\nand more of them")


def test_the_names_of_a_long_list_are_cut() -> None:
    asked = " ".join(f"${{{{inputs.zzzz{i}}}}}" for i in range(300))
    given = ",".join(f"i{i}: 1" for i in range(300))
    with pytest.raises(SpecError) as caught:
        loads(f'command: "{asked}"\nenvironment: e\ninputs: {{{given}}}', "j")
    assert str(caught.value).splitlines()[0].endswith("i28, i29 and 270 more.")
