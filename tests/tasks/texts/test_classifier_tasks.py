"""Classifiers and reward models score as transformers' own logits say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

import smelt
from pico_texts import TEXTS, bert_tokenizer, quiet, write_bert, write_classifier
from smelt.errors import RecipeError
from smelt.tasks.task import TaskError
from smelt.tasks.texts.macro_f1 import macro_f1

LABELS = ("bad", "good", "so-so")
RIGHT = [0, 1, 2, 1, 0, 1]
REPLIES = [("gold", "iron iron"), ("a b c", "z"), ("fish", "the bird"), ("tree", "q q q q q q")]
TEMPLATE = "{% for m in messages %}{{ m['role'][0] }} : {{ m['content'] }} . {% endfor %}"


def _write_classes(folder: Path, labels: list[Any], words: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "classes.yaml").write_text(f"name: mood\nsplits: {{test: test.jsonl}}\n{words}")
    rows = [json.dumps({"text": text, "label": label}) for text, label in zip(TEXTS, labels, strict=True)]
    (folder / "test.jsonl").write_text("\n".join(rows))
    return folder


def _write_preferences(folder: Path, chat: bool = False) -> Path:
    folder.mkdir(parents=True)
    (folder / "preferences.yaml").write_text("name: better\nsplits: {test: test.jsonl}\n")
    rows = []
    for prompt, (one, other) in zip(TEXTS, REPLIES, strict=False):
        said = [[{"role": "assistant", "content": text}] if chat else text for text in (one, other)]
        rows.append(json.dumps({"prompt": prompt, "chosen": said[0], "rejected": said[1]}))
    (folder / "test.jsonl").write_text("\n".join(rows))
    return folder


def _write_llama(folder: Path, *, template: str | None, pad: bool = True) -> Path:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with quiet():
        model = LlamaForSequenceClassification(LlamaConfig(vocab_size=60, num_labels=1, pad_token_id=None, **sizes))
        torch.nn.init.normal_(model.score.weight)
        model.save_pretrained(folder)
        tokenizer = bert_tokenizer()
        tokenizer.chat_template = template
        tokenizer.pad_token = "[PAD]" if pad else None
        tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("classifiers")
    write_classifier(place / "mood", 1, LABELS)
    write_classifier(place / "unnamed", 1, ("LABEL_0", "LABEL_1", "LABEL_2"))
    write_classifier(place / "reward", 4, ("good",))
    return place


def _logits(folder: Path, texts: list[Any], **words: Any) -> torch.Tensor:
    """One text at a time, by transformers alone."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
    both = [(text,) if isinstance(text, str) else text for text in texts]
    with torch.inference_mode():
        return torch.cat([model(**tokenizer(*one, return_tensors="pt", **words)).logits for one in both])


def test_accuracy_and_macro_f1_are_those_of_scikit_learn(place: Path, tmp_path: Path) -> None:
    answers = _logits(place / "mood", TEXTS).argmax(dim=1).numpy()
    plain = _write_classes(tmp_path / "plain", [LABELS[one] for one in RIGHT])
    by_f1 = _write_classes(tmp_path / "f1", [LABELS[one] for one in RIGHT], "metric: macro_f1\n")
    (accuracy,) = smelt.evaluate(place / "mood", plain, batch=4)
    (f1,) = smelt.evaluate(place / "mood", by_f1)
    assert accuracy.accuracy == pytest.approx(accuracy_score(RIGHT, answers))
    assert f1.accuracy == pytest.approx(f1_score(RIGHT, answers, average="macro"))
    assert (accuracy.metric, f1.metric, f1.unit) == ("accuracy", "macro_f1", "text")
    expected = torch.nn.functional.cross_entropy(_logits(place / "mood", TEXTS).double(), torch.tensor(RIGHT))
    assert accuracy.loss == pytest.approx(float(expected), abs=1e-5)


def test_macro_f1_by_hand() -> None:
    # class 0: 1 right of 2 texts and 1 answer: 2/3; class 1: 1 right of 1 text and 2 answers: 2/3
    assert macro_f1(np.array([0, 0, 1]), np.array([0, 1, 1])) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("model", "labels", "words"),
    [
        ("mood", RIGHT, ""),
        ("mood", [LABELS[one].upper() for one in RIGHT], ""),
        ("mood", [str(one) for one in RIGHT], ""),
        ("mood", RIGHT, "labels: [bad, good, so-so]\n"),
        ("unnamed", [LABELS[one] for one in RIGHT], "labels: [bad, good, so-so]\n"),
    ],
)
def test_labels_are_numbers_or_names(place: Path, tmp_path: Path, model: str, labels: list[Any], words: str) -> None:
    answers = _logits(place / model, TEXTS).argmax(dim=1).numpy()
    (row,) = smelt.evaluate(place / model, _write_classes(tmp_path / "mood", labels, words))
    assert row.accuracy == pytest.approx(accuracy_score(RIGHT, answers))


def test_the_tasks_own_names_win_over_their_places(place: Path, tmp_path: Path) -> None:
    """The task counts its labels in another order than the model: what counts are names."""
    turned = [["good", "bad", "so-so"].index(LABELS[one]) for one in RIGHT]
    folder = _write_classes(tmp_path / "mood", turned, "labels: [good, bad, so-so]\n")
    (row,) = smelt.evaluate(place / "mood", folder)
    answers = _logits(place / "mood", TEXTS).argmax(dim=1).numpy()
    assert row.accuracy == pytest.approx(accuracy_score(RIGHT, answers))


@pytest.mark.parametrize(
    ("labels", "words", "said"),
    [
        (["bad", "good", "fine", "bad", "bad", "bad"], "", "the label 'fine' is none of .*: bad, good, so-so"),
        ([0, 1, 3, 0, 0, 0], "", "the label 3 is none of"),
        ([0, 1, 3, 0, 0, 0], "labels: [bad, good]\n", "line 3: the label 3 is none of the 2 labels"),
        ([0, 1, None, 0, 0, 0], "", "line 3: label has to be a label"),
        ([0, 1, 1.5, 0, 0, 0], "", "line 3: label has to be a label"),
        (RIGHT, "metric: f2\n", "metric"),
    ],
)
def test_labels_that_mean_nothing_are_refused(
    place: Path, tmp_path: Path, labels: list[Any], words: str, said: str
) -> None:
    with pytest.raises(TaskError, match=said):
        smelt.evaluate(place / "mood", _write_classes(tmp_path / "mood", labels, words))


def test_two_texts_are_read_together(place: Path, tmp_path: Path) -> None:
    folder = _write_classes(tmp_path / "nli", RIGHT, "columns: {second: other}\n")
    pairs = [(text, TEXTS[(place + 2) % 6]) for place, text in enumerate(TEXTS)]
    rows = [{"text": a, "other": b, "label": label} for (a, b), label in zip(pairs, RIGHT, strict=True)]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (row,) = smelt.evaluate(place / "mood", folder)
    answers = _logits(place / "mood", pairs).argmax(dim=1).numpy()
    assert row.accuracy == pytest.approx(accuracy_score(RIGHT, answers))


@pytest.mark.parametrize("chat", [False, True])
def test_a_bert_reads_prompt_and_reply_as_two_texts(place: Path, tmp_path: Path, chat: bool) -> None:
    (row,) = smelt.evaluate(place / "reward", _write_preferences(tmp_path / "better", chat))
    chosen, rejected = (
        _logits(place / "reward", [(text, some[side]) for text, some in zip(TEXTS, REPLIES, strict=False)])
        for side in (0, 1)
    )
    assert row.accuracy == pytest.approx(float((chosen > rejected).double().mean()))
    expected = torch.nn.functional.softplus((rejected - chosen).double()).mean()
    assert row.loss == pytest.approx(float(expected), abs=1e-5)
    assert (row.n, row.unit) == (4, "pair")


@pytest.mark.parametrize("pad", [True, False])
def test_a_llama_reads_a_chat_in_its_template(tmp_path: Path, pad: bool) -> None:
    model = _write_llama(tmp_path / "model", template=TEMPLATE, pad=pad)
    (row,) = smelt.evaluate(model, _write_preferences(tmp_path / "better"), batch=3)
    texts = [f"u : {text} . a : {reply} . " for text, some in zip(TEXTS, REPLIES, strict=False) for reply in some]
    rewards = _logits(model, texts, add_special_tokens=False)[:, 0].double()
    assert row.accuracy == pytest.approx(float((rewards[0::2] > rewards[1::2]).double().mean()))
    expected = torch.nn.functional.softplus(rewards[1::2] - rewards[0::2]).mean()
    assert row.loss == pytest.approx(float(expected), abs=1e-5)


def test_a_model_with_several_labels_is_no_reward_model(place: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"3 scores, one for each of its labels \(bad, good, so-so\)"):
        smelt.evaluate(place / "mood", _write_preferences(tmp_path / "better"))


def test_a_classifier_with_several_labels_matches_no_texts(place: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs/pairs.yaml").write_text("name: alike\nsplits: {test: test.tsv}\n")
    (tmp_path / "pairs/test.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t1\na\tc\t2\n")
    with pytest.raises(RecipeError, match="gives a pair 3 scores"):
        smelt.evaluate(place / "mood", tmp_path / "pairs")


def test_tasks_of_two_kinds_are_not_asked_together(place: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs/pairs.yaml").write_text("name: alike\nsplits: {test: test.tsv}\n")
    both = f"{_write_classes(tmp_path / 'mood', RIGHT)},{tmp_path / 'pairs'}"
    with pytest.raises(RecipeError, match="no model does both"):
        smelt.evaluate(place / "mood", both)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "a", "chosen": "b"}, "has no 'rejected'"),
        ({"prompt": "a", "chosen": "b", "rejected": ""}, "rejected has to be a text or a list of messages"),
        ({"prompt": "a", "chosen": [{"role": "x"}], "rejected": "c"}, "chosen has to be a text or a list of messages"),
    ],
)
def test_bad_preferences_are_refused(place: Path, tmp_path: Path, row: dict[str, Any], said: str) -> None:
    folder = _write_preferences(tmp_path / "better")
    (folder / "test.jsonl").write_text(json.dumps(row))
    with pytest.raises(TaskError, match=said):
        smelt.evaluate(place / "reward", folder)


def test_a_model_without_a_head_is_told_so(tmp_path: Path) -> None:
    model = write_bert(tmp_path / "bert")
    with pytest.raises(RecipeError, match=r"is a BertModel by its config\.json, and the tasks ask for a classifier"):
        smelt.evaluate(model, _write_classes(tmp_path / "mood", RIGHT))
