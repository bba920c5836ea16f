"""Experts of a language model: full and LoRA, by the formula, in peft, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import smelt
from pico_language import FOLLOWS, write_language_model
from pico_llama import pairs, write_chat_task, write_llama
from pico_training import write_colours, write_words
from smelt.errors import RecipeError
from smelt.models.families.load import load
from smelt.optimise.batch_indices import batch_indices
from smelt.tasks.registry import find_task
from smelt.training.finetune import Finetuned


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_language_model(tmp_path / "base", FOLLOWS["base"])


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return write_words(tmp_path / "words")


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def done(given: Any) -> Finetuned:
    assert isinstance(given, Finetuned)
    return given


def test_one_step_moves_the_weights_by_the_gradient_of_the_answers_alone(
    tmp_path: Path, base: Path, words: Path
) -> None:
    """transformers' own loss, with all labels but the answers' masked, gives the same gradient."""
    smelt.finetune(base, words, out=tmp_path / "expert", steps=1, batch=3, lr=0.5, optimiser="sgd", schedule="constant")
    model = load(str(base), "causal_lm")
    stream = find_task(words).examples(model, "train")
    inputs = stream.batch(batch_indices(0, "words", 0, size=len(stream), batch=3)).inputs
    module = model.module.requires_grad_(True)
    labels = inputs.ids.masked_fill(~inputs.answers, -100)
    module(input_ids=inputs.ids, attention_mask=inputs.mask.long(), labels=labels).loss.backward()
    trained = tensors(tmp_path / "expert")
    for name, weights in module.named_parameters():
        assert weights.grad is not None
        torch.testing.assert_close(trained[name], weights.detach() - 0.5 * weights.grad, rtol=1e-4, atol=1e-6)


def test_an_expert_learns_what_follows_and_says_it(tmp_path: Path, base: Path, words: Path) -> None:
    out = tmp_path / "expert"
    trained: Any = {"trained": ["*.down_proj.weight"], "schedule": "constant", "validation": {"every": 20}}
    made = done(smelt.finetune(base, words, out=out, steps=40, batch=4, lr=0.02, optimiser="adam", **trained))
    before, after = (smelt.evaluate(str(model), tasks=str(words), split="val")[0].accuracy for model in (base, out))
    assert (before, after) == (0.0, 1.0)
    looks = [one["value"] for one in made.note.validations]
    assert [one["measure"] for one in made.note.validations] == ["loss", "loss"]
    assert looks[1] < looks[0]


def test_parts_of_a_batch_weigh_as_many_as_their_answer_tokens(tmp_path: Path) -> None:
    """Answers of one to three words: a mean of the parts' means would be another step."""
    base = write_llama(tmp_path / "base")
    task = write_chat_task(tmp_path / "chat", pairs(8))
    how: Any = {"steps": 1, "batch": 4, "lr": 0.1, "optimiser": "sgd", "schedule": "constant"}
    smelt.finetune(base, task, out=tmp_path / "whole", **how)
    smelt.finetune(base, task, out=tmp_path / "parts", micro_batch=1, checkpointing=True, **how)
    whole, parts = tensors(tmp_path / "whole"), tensors(tmp_path / "parts")
    for name, tensor in whole.items():
        torch.testing.assert_close(parts[name], tensor, rtol=1e-4, atol=1e-6)


def test_an_adapter_loads_in_peft_and_smelt_merges_it_over_its_base(tmp_path: Path, base: Path, words: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    how: Any = {"method": "lora", "rank": 2, "steps": 3, "lr": 0.05, "batch": 4}
    smelt.finetune(base, words, out=tmp_path / "adapter", **how)
    smelt.finetune(base, words, out=tmp_path / "whole", output="whole", **how)
    theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path / "adapter")
    whole = tensors(tmp_path / "whole")
    for name, tensor in theirs.merge_and_unload().state_dict().items():
        torch.testing.assert_close(whole[name], tensor)
    smelt.merge(
        [f"{base}+{tmp_path / 'adapter'}"], base=str(base), method="task_arithmetic", scale=1.0, out=tmp_path / "m"
    )
    merged = tensors(tmp_path / "m")
    for name, tensor in whole.items():
        torch.testing.assert_close(merged[name], tensor, rtol=1e-4, atol=1e-6)
    assert torch.equal(whole["lm_head.weight"], tensors(base)["lm_head.weight"])


def test_an_adapter_with_dropout_that_was_stopped_ends_with_the_same_bytes(
    tmp_path: Path, base: Path, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smelt.training.validation import Looks

    how: Any = {"method": "lora", "rank": 2, "lora.dropout": 0.5, "steps": 5, "lr": 0.05, "batch": 4, "save_every": 2}
    smelt.finetune(base, words, out=tmp_path / "undisturbed", **how)
    seen = Looks.after_step

    def stops(self: Looks, step: int, loss: float) -> bool:
        if step == 3:
            raise KeyboardInterrupt
        return seen(self, step, loss)

    with monkeypatch.context() as patched:
        patched.setattr(Looks, "after_step", stops)
        with pytest.raises(KeyboardInterrupt):
            smelt.finetune(base, words, out=tmp_path / "stopped", **how)
    smelt.finetune(base, words, out=tmp_path / "stopped", **how)
    for name in ("adapter_model.safetensors", "adapter_config.json", "training.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


def test_an_adapter_is_float32_over_weights_held_in_bfloat16(tmp_path: Path) -> None:
    base = write_llama(tmp_path / "base")
    task = write_chat_task(tmp_path / "chat", pairs(8))
    how: Any = {"precision": "bfloat16", "weights": "bfloat16", "method": "lora", "rank": 2, "lr": 0.01}
    made = done(smelt.finetune(base, task, out=tmp_path / "adapter", steps=3, batch=4, **how))
    factors = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in factors.values()} == {torch.float32}
    assert sum(tensor.numel() for tensor in factors.values()) == made.note.trained


def test_tied_embeddings_are_trained_once_and_stay_tied(tmp_path: Path) -> None:
    base = write_llama(tmp_path / "base", tied=True)
    task = write_chat_task(tmp_path / "chat", pairs(8))
    smelt.finetune(base, task, out=tmp_path / "expert", steps=1, batch=4, lr=1e-2)
    assert tensors(tmp_path / "expert").keys() == tensors(base).keys()
    assert not torch.equal(
        tensors(base)["model.embed_tokens.weight"], tensors(tmp_path / "expert")["model.embed_tokens.weight"]
    )


def test_epochs_are_times_through_the_task(tmp_path: Path, base: Path, words: Path) -> None:
    made = done(smelt.finetune(base, words, out=tmp_path / "expert", epochs=2, batch=3, lr=1e-3))
    assert made.note.steps == 3  # two times four texts, three in a step


def test_pictures_are_nothing_for_a_language_model(tmp_path: Path, base: Path, words: Path) -> None:
    colours = write_colours(tmp_path / "colours")
    with pytest.raises(RecipeError, match="colours is a task of pictures"):
        smelt.finetune(base, [words, colours], out=tmp_path / "expert", steps=1)
