"""Texts for statistics and learning: through the chat template, with the answer marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pico_llama import WORDS, pairs, write_chat_task, write_llama
from smelt.errors import RecipeError
from smelt.models.families.causal_lm.family import CausalLM
from smelt.models.families.load import load
from smelt.recipe.schema import DataBudget
from smelt.tasks.language.examples import encoded, language_examples
from smelt.tasks.language.harness_model import harness_model
from smelt.tasks.language.task import LanguageTask


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    return load(write_llama(tmp_path_factory.mktemp("read") / "base"), "causal_lm")


def words(ids: list[int]) -> str:
    return " ".join(WORDS[token] for token in ids)


def test_what_is_judged_is_the_answer_and_the_end_of_its_turn(model: CausalLM) -> None:
    ids, begin = encoded(model.tokenizer, "w1 w2", "w3 w4", chat=True)
    assert words(ids[:begin]) == "<|im_start|> user w1 w2 <|im_end|> <|im_start|> assistant"
    assert words(ids[begin:]) == "w3 w4 <|im_end|>"


def test_a_text_that_is_no_chat_is_the_prompt_and_the_answer(model: CausalLM) -> None:
    ids, begin = encoded(model.tokenizer, "w1 w2", "w3", chat=False)
    assert (words(ids), begin) == ("w1 w2 w3", 2)


def test_between_prompt_and_answer_stands_what_the_task_says(model: CausalLM, tmp_path: Path) -> None:
    folder = write_chat_task(tmp_path / "talk", [("w1", "w2")], chat=False)
    with open(folder / "harness.yaml", "a") as file:
        file.write('target_delimiter: " w9 "\n')
    batch = language_examples(model, LanguageTask.load(folder), split="train").batch([0])
    assert words(batch.inputs.ids[0].tolist()) == "w1 w9 w2"


def test_a_template_that_writes_the_date_gives_the_same_text_every_day(model: CausalLM, tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "dated")
    old = (folder / "chat_template.jinja").read_text()
    llama = "{% if date_string is not defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    (folder / "chat_template.jinja").write_text(llama + "{{ date_string }} " + old)
    dated = load(folder, "causal_lm")
    chat = [{"role": "user", "content": "w1"}]
    plain = harness_model(model).apply_chat_template(chat)
    assert harness_model(dated).apply_chat_template(chat) == "26 Jul 2024 " + plain
    ids, begin = encoded(dated.tokenizer, "w1", "w2", chat=True)
    assert words(ids[begin:]) == "w2 <|im_end|>"


def test_a_long_text_loses_the_beginning_of_its_prompt(model: CausalLM) -> None:
    ids, begin = encoded(model.tokenizer, "w1 w2 w3 w4", "w5 w6", chat=False, length=4)
    assert (words(ids), begin) == ("w3 w4 w5 w6", 2)
    ids, begin = encoded(model.tokenizer, "w1 w2", "w3 w4 w5 w6 w7", chat=False, length=4)
    assert (words(ids), begin) == ("w2 w3 w4 w5", 1)


def test_a_model_without_a_template_cannot_chat(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "model")
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(RecipeError, match="the model's tokenizer has no chat template"):
        encoded(load(folder, "causal_lm").tokenizer, "w1", "w2", chat=True)


def test_examples_are_a_fixed_part_of_a_split(model: CausalLM, tmp_path: Path) -> None:
    task = LanguageTask.load(write_chat_task(tmp_path / "talk", pairs(9)))
    one, other = (language_examples(model, task, split="train", count=4) for _ in range(2))
    assert one.hash == other.hash != language_examples(model, task, split="train").hash
    assert one.budget == DataBudget(split="train", images=4, labels=4)  # the answers are part of the texts
    batch = one.batch([0, 1]).inputs
    assert batch.ids.shape == batch.mask.shape == batch.answers.shape
    assert batch.targets.tolist().count(WORDS.index("<|im_end|>")) == 2
    with pytest.raises(RecipeError, match="10 examples are asked for, but its train split has 9"):
        language_examples(model, task, split="train", count=10)
    with pytest.raises(RecipeError, match="no split named 'test'"):
        language_examples(model, task, split="test")
