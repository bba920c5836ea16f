from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from smelt.errors import MissingExtra, RecipeError
from smelt.evaluation.load import one_model_kind
from smelt.models.families.image_text.family import ImageText
from smelt.models.families.load import load
from smelt.prepare.evaluate import evaluate
from smelt.tasks.language.greedy import StopRule
from smelt.tasks.lmms.generate import likelihood, written
from smelt.tasks.lmms.prompts import Prompt, places_of, prompt_of, stop_rule_of
from smelt.tasks.lmms.task import LmmsTask
from smelt.tasks.registry import find_task, find_tasks
from smelt.tasks.task import TaskError
from smelt.testing.pico_llava import save_llava


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ImageText:
    return load(save_llava(tmp_path_factory.mktemp("pico") / "llava"), "image_text")


def picture(seed: int) -> Any:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (12, 10, 3), dtype=np.uint8))


def pixels_of(model: ImageText, prompt: Prompt) -> torch.Tensor:
    assert prompt.pictures is not None
    return model.preprocess.normalise(torch.from_numpy(prompt.pictures), torch.float32)


def by_transformers(model: ImageText, prompt: Prompt, longest: int) -> list[int]:
    """What the library's own generation writes after one prompt."""
    ids = torch.tensor([prompt.tokens])
    words: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if prompt.pictures is not None:
        words["pixel_values"] = pixels_of(model, prompt)
    found = model.module.generate(**words, max_new_tokens=longest, do_sample=False)
    return [int(one) for one in found[0, ids.shape[1] :]]


def test_every_picture_has_its_four_places_in_the_prompt(model: ImageText) -> None:
    assert places_of(model) == 4
    for count in (0, 1, 3):
        prompt = prompt_of(model, "What?", [picture(seed) for seed in range(count)], 4)
        assert prompt.tokens.count(model.placeholder) == 4 * count
        assert (prompt.pictures is None) if count == 0 else (prompt.pictures.shape == (count, 8, 8, 3))


def test_a_text_that_has_the_placeholders_itself_gets_no_more_of_them(model: ImageText) -> None:
    prompt = prompt_of(model, "Is <image> like <image>?", [picture(0), picture(1)], 4)
    assert prompt.tokens.count(model.placeholder) == 8
    with pytest.raises(TaskError, match=r"2 pictures has 1 placeholders \(<image>\)"):
        prompt_of(model, "What is <image>?", [picture(0), picture(1)], 4)


def test_a_film_is_refused(model: ImageText) -> None:
    with pytest.raises(TaskError, match="films and sounds cannot be asked"):
        prompt_of(model, "What?", ["film.mp4"], 4)


def test_answers_are_those_of_transformers_whatever_they_are_asked_with(model: ImageText) -> None:
    prompts = [
        prompt_of(model, "What?", [picture(0)], 4),
        prompt_of(model, "And what is this here?", [picture(1), picture(2)], 4),
        prompt_of(model, "No picture at all.", [], 4),
        prompt_of(model, "What?", [picture(3)], 4),
    ]
    limits = StopRule(6)
    together = written(model, [(prompt, limits) for prompt in prompts])
    alone = [written(model, [(prompt, limits)])[0] for prompt in prompts]
    theirs = [model.tokenizer.decode(by_transformers(model, one, 6), skip_special_tokens=True) for one in prompts]
    assert together == alone == theirs
    assert len(set(together)) > 1


def test_an_answer_ends_before_its_stop(model: ImageText) -> None:
    prompt = prompt_of(model, "What?", [picture(0)], 4)
    (whole,) = written(model, [(prompt, StopRule(8))])
    stop = whole[3]
    assert written(model, [(prompt, StopRule(8, (stop,)))]) == [whole.split(stop)[0]]


def test_a_question_that_leaves_no_room_is_refused(model: ImageText) -> None:
    prompt = prompt_of(model, "x" * 600, [picture(0)], 4)
    with pytest.raises(TaskError, match=r"a question of 6\d\d tokens, with its pictures, is too long; .* at most 512"):
        written(model, [(prompt, StopRule(1))])


def test_the_likelihood_of_an_answer_is_the_sum_over_its_tokens(model: ImageText) -> None:
    prompt = prompt_of(model, "What?", [picture(0)], 4)
    answer = by_transformers(model, prompt, 3)
    total, greedy = likelihood(model, prompt, answer)
    features = model.kind.features(model.module, pixels_of(model, prompt))
    steps = 0.0
    for place, token in enumerate(answer):
        ids = torch.tensor([[*prompt.tokens, *answer[:place]]])
        steps += float(torch.log_softmax(model.kind.scores(model.module, ids, features)[0], dim=-1)[token])
    assert greedy
    assert total == pytest.approx(steps, abs=1e-4)
    other = [(answer[0] + 1) % 200, *answer[1:]]
    assert not likelihood(model, prompt, other)[1]


def test_limits_are_read_and_sampling_is_refused() -> None:
    assert stop_rule_of({"max_new_tokens": 16, "temperature": 0, "do_sample": False, "num_beams": 1}) == StopRule(16)
    assert stop_rule_of({"until": ["ASSISTANT:", ""], "image_aspect_ratio": "original"}) == StopRule(
        1024, ("ASSISTANT:",)
    )
    with pytest.raises(TaskError, match="do_sample: True; questions are answered greedily"):
        stop_rule_of({"do_sample": True})
    with pytest.raises(TaskError, match="tpyo is not understood; there is max_new_tokens and until"):
        stop_rule_of({"tpyo": 1})


def test_the_papers_sets_are_groups() -> None:
    names = "ok_vqa_val2014 textvqa_val gqa mmmu_val vizwiz_vqa_val vqav2_val pope".split()
    assert [task.reference for task in find_tasks("uqmerge")] == [f"lmms:{name}" for name in names]
    assert all(isinstance(task, LmmsTask) for task in find_tasks("uqmerge-in"))
    assert one_model_kind(find_tasks("uqmerge")) == "image_text"
    assert find_task("lmms:seedbench@seed_image").metric == "seed_image"  # type: ignore[union-attr]


def test_a_task_that_a_judge_over_the_network_scores_is_refused_with_another() -> None:
    with pytest.raises(TaskError, match=r"judged by a model of OpenAI.*take lmms:mmbench_en_dev_static"):
        find_task("lmms:mmbench_en_dev")


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from smelt.tasks.lmms import harness as library

    library.parts.cache_clear()
    for name in ("lmms_eval", "lmms_eval.api", "lmms_eval.api.task", "lmms_eval.tasks"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtra, match=r"lmms:NAME needs lmms-eval .*pip install 'smelt\[vlm\]', then pip install --no-deps"
    ):
        evaluate(str(save_llava(tmp_path / "llava")), "lmms:gqa")


def test_a_language_model_gets_no_questions_about_pictures(model: ImageText) -> None:
    from smelt.evaluation.load import load_model

    assert load_model(model, "lmms:gqa") is model
    with pytest.raises(RecipeError, match="give question sets"):
        load_model(model, "lm-eval:gsm8k_cot")
