from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from checkpoints import write_yaml
from pico_clip import colour_clip, save_clip, write_task
from pico_language import FOLLOWS, write_language_model, write_language_task
from pico_llama import write_chat_task, write_llama
from smelt.errors import NumericalError, RecipeError
from smelt.evaluation.evaluate import TasksFailed
from smelt.evaluation.load import load_model
from smelt.evaluation.row import read_rows
from smelt.prepare.evaluate import evaluate, evaluate_model_or_recipe
from smelt.tasks.intervals import wilson
from smelt.tasks.task import TaskError

# The model `up` answers a by b and c by d, and repeats every other word.
FOUR = [("a", "b"), ("c", "d"), ("e", "e"), ("e", "f")]


@pytest.fixture
def up(tmp_path: Path) -> Path:
    return write_language_model(tmp_path / "up", FOLLOWS["up"])


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_language_task(tmp_path / "letters", FOUR)


def test_a_row_is_the_mean_over_examples_with_its_interval(up: Path, task: Path) -> None:
    (row,) = evaluate(str(up), str(task), entry="mine")
    assert (row.task, row.metric, row.n, row.correct, row.accuracy) == ("letters", "acc", 4, 3, 0.75)
    assert (row.low, row.high) == pytest.approx((0.3006, 0.9544), abs=1e-4)  # Wilson's
    assert (row.loss, row.entry, row.dtype) == (None, "mine", "float32")


def test_the_command_of_a_row_gives_the_same_row(up: Path, task: Path, cli: Any, tmp_path: Path) -> None:
    (row,) = evaluate(str(up), str(task), limit=2, dtype="bfloat16")
    assert (row.n, row.correct) == (2, 2)
    out = tmp_path / "again.jsonl"
    _, *words = shlex.split(row.command)
    assert cli(*words, "-o", out, "--quiet").code == 0
    (again,) = read_rows(out)
    assert again.model_dump(exclude={"when"}) == row.model_dump(exclude={"when"})


def test_scores_between_right_and_wrong_have_an_interval_too(up: Path, tmp_path: Path) -> None:
    task = write_language_task(tmp_path / "shares", FOUR)
    (task / "checks.py").write_text(
        "def score(doc, results):\n    return {'acc': 0.25 if doc['prompt'] == 'a' else 0.75}\n"
    )
    with open(task / "harness.yaml", "a") as file:
        file.write("process_results: !function checks.score\n")
    (row,) = evaluate(str(up), str(task), trust_remote_code=True)
    assert (row.correct, row.accuracy) == (None, 0.625)
    assert (row.low, row.high) == wilson(2.5, 4)  # few scores: the wider of both


def test_the_loss_is_that_of_the_reference_answers_per_token(up: Path, tmp_path: Path) -> None:
    task = write_language_task(tmp_path / "letters", FOUR, metadata={"loss": True})
    (row,) = evaluate(str(up), str(task))
    model = load_model(str(up), str(task))
    import torch

    words = model.tokenizer.convert_tokens_to_ids  # type: ignore[attr-defined]
    with torch.inference_mode():
        logs = [model.module(torch.tensor([[words(a)]])).logits[0, 0].log_softmax(0)[words(b)] for a, b in FOUR]  # type: ignore[attr-defined]
    assert row.loss == pytest.approx(-float(sum(logs)) / 4, abs=1e-6)


def test_a_task_that_fails_costs_only_itself(up: Path, task: Path, tmp_path: Path, cli: Any) -> None:
    empty = write_language_task(tmp_path / "empty", FOUR)
    (empty / "test.jsonl.gz").unlink()
    odd = write_language_task(tmp_path / "odd", FOUR)
    (odd / "checks.py").write_text("def score(doc, results):\n    return {'acc': 37.0}\n")
    with open(odd / "harness.yaml", "a") as file:
        file.write("process_results: !function checks.score\n")
    done = evaluate_model_or_recipe(str(up), [str(empty), str(task), str(odd)], trust_remote_code=True)
    assert [row.task for row in done.rows] == ["letters"]
    assert [one.task for one in done.failures] == ["empty", "odd"]
    with pytest.raises(TasksFailed, match="2 of 3 tasks could not be asked") as caught:
        evaluate(str(up), [str(empty), str(task), str(odd)], trust_remote_code=True)
    assert "acc of example 0 is 37.0; a task's score is a mean over examples" in str(caught.value)
    assert [row.task for row in caught.value.rows] == ["letters"]
    ran = cli("eval", up, "--tasks", f"{empty},{task}", "--json")
    assert ran.code == 1
    assert list(json.loads(ran.out)["failures"]) == ["empty"]
    assert "1 of 2 tasks could not be asked" in ran.err


def test_one_task_alone_says_its_own_error(up: Path, task: Path) -> None:
    (task / "test.jsonl.gz").unlink()
    with pytest.raises(TaskError, match="is not there"):
        evaluate(str(up), str(task))


def test_scoring_that_breaks_is_a_fault_of_the_task(up: Path, task: Path) -> None:
    (task / "checks.py").write_text("def score(doc, results):\n    return {'other': 1 / len(doc)}\n")
    with open(task / "harness.yaml", "a") as file:
        file.write("process_results: !function checks.score\n")
    with pytest.raises(TaskError, match="letters: its scoring gives no 'acc', which is its score; it gives: other"):
        evaluate(str(up), str(task), trust_remote_code=True)
    (task / "checks.py").write_text("def score(doc, results):\n    raise KeyError('reply')\n")
    with pytest.raises(TaskError, match="letters: cannot be asked \\(KeyError: 'reply'\\)"):
        evaluate(str(up), str(task), trust_remote_code=True)


def test_both_kinds_of_tasks_at_once_are_refused(up: Path, task: Path, tmp_path: Path) -> None:
    pictures = write_task(tmp_path / "colours")
    with pytest.raises(RecipeError, match="letters is a language task and colours one of pictures"):
        evaluate(str(up), [str(task), str(pictures)])


def test_a_model_of_the_other_kind_is_refused(up: Path, task: Path, tmp_path: Path) -> None:
    pictures, clip = write_task(tmp_path / "colours"), save_clip(colour_clip(), tmp_path / "clip")
    with pytest.raises(RecipeError, match="clip"):
        evaluate(str(clip), str(task))
    with pytest.raises(RecipeError, match="is a language model, which tells no pictures apart"):
        evaluate(load_model(str(up), str(task)), str(pictures))
    with pytest.raises(RecipeError, match="is a model of pictures, which answers no questions"):
        evaluate(load_model(str(clip), str(pictures)), str(task))


def test_pictures_are_not_corrupted_where_there_are_none(up: Path, task: Path) -> None:
    with pytest.raises(RecipeError, match="no pictures to corrupt"):
        evaluate(str(up), str(task), corruption="motion_blur@3")
    with pytest.raises(RecipeError, match="limit is a number of examples"):
        evaluate(str(up), str(task), limit=0)


def test_a_chat_task_needs_a_chat_template(up: Path, tmp_path: Path) -> None:
    task = write_language_task(tmp_path / "chat", FOUR, metadata={"chat": True})
    with pytest.raises(TaskError, match=r"chat: its prompts go into a chat template, but .*up has none"):
        evaluate(str(up), str(task))
    anyway = write_language_task(tmp_path / "anyway", FOUR, metadata={"chat": "if-any"})
    assert evaluate(str(up), str(anyway))[0].accuracy == 0.75


def test_a_prompt_goes_into_the_chat_template_and_the_answer_is_what_follows(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "llama")
    task = write_chat_task(tmp_path / "talk", [("w1", "w2"), ("w3 w4", "w5")], split="test")
    with pytest.raises(TaskError, match=r"max_gen_toks: 256 leaves no room for a prompt; .* at most 64 tokens"):
        evaluate_model_or_recipe(str(model), str(task))
    with open(task / "harness.yaml", "a") as file:
        file.write("generation_kwargs: {max_gen_toks: 4, do_sample: false, until: []}\n")
    (result,) = evaluate_model_or_recipe(str(model), str(task)).results
    prompts = [sample["arguments"][0][0] for sample in result.samples]  # type: ignore[union-attr]
    assert prompts[1] == "<|im_start|> user w3 w4 <|im_end|> <|im_start|> assistant "


def test_domains_have_their_mean(up: Path, task: Path, tmp_path: Path) -> None:
    other = write_language_task(tmp_path / "more", FOUR[:2], metadata={"domain": "letters"})
    done = evaluate_model_or_recipe(str(up), [str(task), str(other)])
    assert done.domains == {"letters": (0.75 + 1.0) / 2}
    assert done.averages[0].loss is None


def test_a_recipe_is_merged_and_evaluated(up: Path, task: Path, tmp_path: Path, cli: Any) -> None:
    base = write_language_model(tmp_path / "base", FOLLOWS["base"])
    down = write_language_model(tmp_path / "down", FOLLOWS["down"])
    pool = {"base": str(base), "models": {"up": str(up), "down": str(down)}}
    recipe = write_yaml(tmp_path / "both.yaml", {"pool": pool, "merge": [{"task_arithmetic": {"scale": 1.0}}]})
    (row,) = evaluate(str(recipe), str(task))
    assert row.accuracy == 0.75  # e is answered by f now, and no more by e
    assert (row.entry, row.model) == ("both", str(recipe))
    assert row.recipe_hash is not None
    assert row.command.startswith(f"smelt eval {recipe} --tasks ")
    assert not list(tmp_path.glob("smelt-eval-*"))


def test_weights_that_are_not_sound_are_named(up: Path, task: Path) -> None:
    import torch

    model: Any = load_model(str(up), str(task))
    with torch.no_grad():
        model.module.lm_head.weight.fill_(float("nan"))
    with pytest.raises(NumericalError, match="NaN or infinite scores on letters"):
        evaluate(model, str(task))


def test_the_table_shows_metrics_and_the_mean_of_domains(up: Path, task: Path, tmp_path: Path, cli: Any) -> None:
    other = write_language_task(tmp_path / "words", FOUR[:2])
    ran = cli("eval", up, "--tasks", f"{task},{other}")
    assert ran.code == 0
    assert "score %" in ran.out
    assert "acc" in ran.out
    assert "mean of letters" in ran.out
    assert "loss" not in ran.out


def test_tasks_of_both_kinds_are_listed(task: Path, cli: Any) -> None:
    ran = cli("tasks", task)
    assert "domain:     letters" in ran.out
    assert "licence:    CC0-1.0" in ran.out
    assert "test 4" in ran.out
    told = json.loads(cli("tasks", task, "--json").out)
    assert (told["kind"], told["metric"], told["splits"]) == ("language", "acc", {"test": 4})
    assert "lm-eval:gsm8k_cot" in cli("tasks", "mergebench").out
