"""Models with different tokenizers: the same tokens, the same row behind each, the same chat template."""

from __future__ import annotations

import json

import pytest
import transformers
from parity_cases import Case, config, models
from parity_record import Distance, Row, load
from parity_tokenizers import TEMPLATES, write_speakers

pytestmark = pytest.mark.parity

PAIR = models("cars", "birds", weight=[0.3, 0.9])
ROWS = ("model.embed_tokens.weight", "lm_head.weight")


def tokenized(method, tokenizer, base="base", entries=PAIR, **rest):
    whole = config(method, entries, base, **rest)
    return {**whole, **({"tokenizer_source": tokenizer} if isinstance(tokenizer, str) else {"tokenizer": tokenizer})}


ZERO = {"tokens": {"<car>": {"source": {"kind": "zero"}, "force": True}, "<new>": {"source": {"kind": "zero"}}}}
TAKEN = {"kind": "model_token", "model": "birds", "token": "<|im_end|>"}
BORROWED = {"source": "base", "tokens": {"<car>": {"source": TAKEN}, "<|im_end|>": {"source": "birds", "force": True}}}
CASES = [
    Case("linear", "tokenizer_source union, no base", tokenized("linear", "union", None)),
    Case("task_arithmetic", "tokenizer_source union", tokenized("task_arithmetic", "union")),
    Case("task_arithmetic", "tokenizer_source base", tokenized("task_arithmetic", "base")),
    Case("ties", "tokenizer_source of a model", tokenized("ties", "birds")),
    Case("slerp", "tokenizer_source base", tokenized("slerp", "base", entries=models("cars"), t=0.4)),
    Case("slerp", "tokenizer_source union", tokenized("slerp", "union", entries=models("cars"), t=0.4)),
    Case(
        "linear",
        "tokenizer_source base, base listed last",
        tokenized("linear", "base", entries=models("cars", "base", weight=[1, 1])),
    ),
    Case("linear", "tokenizer: its source is union by default", tokenized("linear", {"pad_to_multiple_of": 1}, None)),
    Case("task_arithmetic", "tokenizer: zero embeddings", tokenized("task_arithmetic", {"source": "union", **ZERO})),
    Case("task_arithmetic", "tokenizer: tokens from other tokens", tokenized("task_arithmetic", BORROWED)),
]


@pytest.fixture(scope="module")
def speakers(tmp_path_factory):
    return write_speakers(tmp_path_factory.mktemp("speakers"))


def by_token(folder):
    """The tensors of a folder with one row per token, in the order of the tokens' names, and the tokens."""
    ids = transformers.AutoTokenizer.from_pretrained(folder).get_vocab()
    tokens = sorted(ids)
    weights = load(folder)
    count = json.loads((folder / "config.json").read_text())["vocab_size"]
    assert {weights[name].shape[0] for name in ROWS} == {count}
    order = [ids[token] for token in tokens]
    return {name: t[order] if name in ROWS else t for name, t in weights.items()}, tokens, count


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_token_gets_the_same_row(case, mergekit, smelt_reads, speakers, record):
    ours, our_tokens, our_count = by_token(smelt_reads.folder(case.on(speakers)))
    theirs, their_tokens, their_count = by_token(mergekit.folder(case.on(speakers), copy_tokenizer=True))
    assert our_tokens == their_tokens
    assert our_count == their_count
    distance = Distance.between(ours, theirs)
    verdict = "same" if distance.relative <= case.tolerance else "differs"
    values = (distance.absolute, distance.relative, case.tolerance, verdict)
    record.add(Row(case.method, case.name, "own tokenizers", "exact", *values))
    assert verdict == "same", distance


def test_padding_rows_are_as_many_but_mean_rows_there_and_zeros_here(mergekit, smelt_reads, speakers, record):
    case = Case(
        "linear",
        "tokenizer: pad_to_multiple_of",
        tokenized("linear", {"source": "union", "pad_to_multiple_of": 64}, None),
    )
    ours, tokens, our_count = by_token(smelt_reads.folder(case.on(speakers)))
    theirs, their_tokens, their_count = by_token(mergekit.folder(case.on(speakers), copy_tokenizer=True))
    assert (tokens, our_count % 64, our_count) == (their_tokens, 0, their_count)
    distance = Distance.between(ours, theirs)
    assert distance.relative <= case.tolerance
    note = "the padding rows themselves differ: zeros here, mergekit writes the mean row"
    values = (distance.absolute, distance.relative, case.tolerance, "same", note)
    record.add(Row(case.method, case.name, "own tokenizers", "exact", *values))


def test_rows_beyond_the_tokens_stay_here_and_go_there(mergekit, smelt_reads, tmp_path, record):
    padded = write_speakers(tmp_path, padding=5)
    case = Case("task_arithmetic", "rows beyond the tokens", tokenized("task_arithmetic", "base"))
    ours, tokens, our_count = by_token(smelt_reads.folder(case.on(padded)))
    theirs, their_tokens, their_count = by_token(mergekit.folder(case.on(padded), copy_tokenizer=True))
    assert (tokens, our_count, their_count) == (their_tokens, len(tokens) + 5, len(tokens))
    distance = Distance.between(ours, theirs)
    assert distance.relative <= case.tolerance
    note = "with a tokenizer given, mergekit cuts rows that no token names; Smelt keeps the base's number of rows"
    values = (distance.absolute, distance.relative, case.tolerance, "same", note)
    record.add(Row(case.method, case.name, "own tokenizers", "exact", *values))


@pytest.mark.parametrize("template", ["auto", TEMPLATES["base"] + "{# mine #}"])
def test_the_chat_template_is_the_same(template, mergekit, smelt_reads, speakers, record):
    case = Case(
        "linear",
        "chat_template " + template[:5].rstrip("{%"),
        tokenized("linear", "union", None, chat_template=template),
    )
    found = [
        transformers.AutoTokenizer.from_pretrained(folder).chat_template
        for folder in (smelt_reads.folder(case.on(speakers)), mergekit.folder(case.on(speakers), copy_tokenizer=True))
    ]
    assert found[0] == found[1] == (TEMPLATES["cars"] if template == "auto" else template)
    record.add(
        Row(
            "linear",
            f"chat_template: {'auto' if template == 'auto' else 'a template'}",
            "own tokenizers",
            "exact",
            None,
            None,
            None,
            "same",
        )
    )
