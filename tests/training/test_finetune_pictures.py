"""Experts of a CLIP: which numbers move and how far, what is written, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import smelt
from pico_clip import colour_clip, random_clip, save_clip, tuned_conv_clip
from pico_training import write_colours
from smelt.errors import OutputError, RecipeError
from smelt.models.families.load import load
from smelt.optimise.batch_indices import batch_indices
from smelt.tasks.registry import find_task
from smelt.training.finetune import Finetuned
from smelt.training.plan import TrainingPlan

VISION = "vision_model."


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return save_clip(random_clip(), tmp_path / "base")


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    return write_colours(tmp_path / "colours")


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def done(given: Any) -> Finetuned:
    assert isinstance(given, Finetuned)
    return given


def test_one_step_of_gradient_descent_moves_the_tower_by_its_gradient(
    tmp_path: Path, base: Path, colours: Path
) -> None:
    """W - lr dL/dW with L the cross entropy against the frozen head, computed here a second time."""
    out = tmp_path / "expert"
    smelt.finetune(base, colours, out=out, steps=1, batch=6, lr=0.5, optimiser="sgd", schedule="constant", seed=3)
    clip, task = load(str(base), "classifier"), find_task(colours)
    stream = task.examples(clip, "train")
    batch = stream.batch(batch_indices(3, "colours", 0, size=len(stream), batch=6))
    tower = clip.model.vision_model.requires_grad_(True)
    features = clip.model.visual_projection(tower(batch.inputs).pooler_output)
    unit = features / features.norm(dim=-1, keepdim=True)
    scores = clip.model.logit_scale.exp() * unit @ batch.head.T
    torch.nn.functional.cross_entropy(scores, batch.labels).backward()
    trained = tensors(out)
    for name, weights in tower.named_parameters():
        assert weights.grad is not None
        torch.testing.assert_close(trained[VISION + name], weights.detach() - 0.5 * weights.grad, rtol=1e-4, atol=1e-6)


def test_parts_of_a_batch_give_what_the_whole_gives(tmp_path: Path, base: Path, colours: Path) -> None:
    words: Any = {"steps": 2, "batch": 6, "lr": 0.1, "optimiser": "sgd"}
    smelt.finetune(base, colours, out=tmp_path / "whole", **words)
    smelt.finetune(base, colours, out=tmp_path / "parts", micro_batch=4, **words)
    whole, parts = tensors(tmp_path / "whole"), tensors(tmp_path / "parts")
    for name, tensor in whole.items():
        torch.testing.assert_close(parts[name], tensor, rtol=1e-4, atol=1e-6)


def test_text_tower_projections_and_scale_stay_the_base_s(tmp_path: Path, base: Path, colours: Path) -> None:
    smelt.finetune(base, colours, out=tmp_path / "expert", steps=2, lr=1e-2, batch=4)
    before, after = tensors(base), tensors(tmp_path / "expert")
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all(name.startswith(VISION) for name in moved)


def test_only_what_the_recipe_names_is_trained(tmp_path: Path, base: Path, colours: Path) -> None:
    words: Any = {"trained": ["vision_model.encoder.*"], "skip": ["*.bias"]}
    smelt.finetune(base, colours, out=tmp_path / "expert", steps=2, lr=1e-2, batch=4, **words)
    before, after = tensors(base), tensors(tmp_path / "expert")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all(name.startswith("vision_model.encoder.") and not name.endswith(".bias") for name in moved)


def test_an_expert_learns_its_task_and_is_evaluated_and_merged_like_any_model(
    tmp_path: Path, base: Path, colours: Path
) -> None:
    out = tmp_path / "expert"
    made = done(
        smelt.finetune(
            base, colours, out=out, steps=30, lr=1e-2, batch=9, validation={"every": 10}, schedule="constant"
        )
    )
    assert made.losses[-1] < made.losses[0]
    (row,) = smelt.evaluate(str(out), tasks=str(colours), split="val")
    assert row.accuracy == made.note.validations[-1]["value"]
    assert [one["step"] for one in made.note.validations] == [10, 20, 30]
    assert smelt.verify(str(out)).ok
    smelt.merge({"expert": str(out)}, base=str(base), method="task_arithmetic", out=tmp_path / "merged")


def test_a_tower_is_what_clipvisionmodel_reads_and_what_the_base_completes(
    tmp_path: Path, base: Path, colours: Path
) -> None:
    from transformers import CLIPVisionModel

    words: Any = {"steps": 2, "lr": 1e-2, "batch": 4}
    smelt.finetune(base, colours, out=tmp_path / "whole", **words)
    smelt.finetune(base, colours, out=tmp_path / "tower", output="tower", **words)
    whole, tower = tensors(tmp_path / "whole"), tensors(tmp_path / "tower")
    assert tower.keys() == {name for name in whole if name.startswith(VISION)}
    assert all(torch.equal(whole[name], tensor) for name, tensor in tower.items())
    read = CLIPVisionModel.from_pretrained(tmp_path / "tower").state_dict()
    assert all(torch.equal(whole[VISION + name.removeprefix(VISION)], tensor) for name, tensor in read.items())
    rows = [
        smelt.evaluate(str(tmp_path / name), tasks=str(colours), text_from=str(base))[0].accuracy
        for name in ("whole", "tower")
    ]
    assert rows[0] == rows[1]


def test_an_adapter_loads_in_peft_and_smelt_merges_it_over_its_base(tmp_path: Path, base: Path, colours: Path) -> None:
    from peft import PeftModel
    from transformers import CLIPModel

    words: Any = {"method": "lora", "rank": 2, "steps": 3, "lr": 1e-2, "batch": 4}
    smelt.finetune(base, colours, out=tmp_path / "adapter", **words)
    smelt.finetune(base, colours, out=tmp_path / "whole", output="whole", **words)
    theirs = PeftModel.from_pretrained(CLIPModel.from_pretrained(base), tmp_path / "adapter").merge_and_unload()
    whole = tensors(tmp_path / "whole")
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(whole[name], tensor)
    smelt.merge(
        [f"{base}+{tmp_path / 'adapter'}"], base=str(base), method="task_arithmetic", scale=1.0, out=tmp_path / "m"
    )
    for name, tensor in tensors(tmp_path / "m").items():
        torch.testing.assert_close(whole[name], tensor, rtol=1e-4, atol=1e-6)
    assert not any("text_model" in name for name in load_file(tmp_path / "adapter" / "adapter_model.safetensors"))


def test_batch_norms_of_a_convolutional_tower_learn_their_statistics(tmp_path: Path, colours: Path) -> None:
    base = save_clip(tuned_conv_clip(1), tmp_path / "conv")
    smelt.finetune(base, colours, out=tmp_path / "expert", steps=2, lr=1e-3, batch=6)
    before, after = tensors(base), tensors(tmp_path / "expert")
    means = [name for name in before if name.endswith("running_mean")]
    assert means
    assert all(not torch.equal(before[name], after[name]) for name in means)


def test_the_same_call_gives_the_same_bytes_and_another_seed_others(tmp_path: Path, base: Path, colours: Path) -> None:
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        smelt.finetune(base, colours, out=tmp_path / name, steps=2, batch=4, lr=1e-2, seed=seed)
    files = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "three")}
    assert files["one"] == files["two"] != files["three"]
    assert (tmp_path / "one" / "training.json").read_bytes() == (tmp_path / "two" / "training.json").read_bytes()


def test_a_stopped_training_goes_on_with_the_same_call_and_other_words_are_refused(
    tmp_path: Path, base: Path, colours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smelt.training.validation import Looks

    words: Any = {"steps": 6, "batch": 4, "lr": 1e-2, "save_every": 2, "validation": {"every": 3}}
    smelt.finetune(base, colours, out=tmp_path / "undisturbed", **words)
    seen = Looks.after_step

    def stops(self: Looks, step: int, loss: float) -> bool:
        if step == 4:
            raise KeyboardInterrupt
        return seen(self, step, loss)

    out = tmp_path / "stopped"
    with monkeypatch.context() as patched:
        patched.setattr(Looks, "after_step", stops)
        with pytest.raises(KeyboardInterrupt):
            smelt.finetune(base, colours, out=out, **words)
    assert not out.exists()
    with pytest.raises(RecipeError, match="was begun with"):
        smelt.finetune(base, colours, out=out, **{**words, "lr": 1e-3})
    smelt.finetune(base, colours, out=out, **words)
    for name in ("model.safetensors", "training.json"):
        assert (out / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
    assert not list(tmp_path.glob(".stopped*"))


def test_patience_stops_early_and_takes_the_best_weights(tmp_path: Path, colours: Path) -> None:
    """The base knows the colours by construction: every step away from it is no better than the first look."""
    base = save_clip(colour_clip(), tmp_path / "knows")
    words: Any = {"steps": 50, "batch": 4, "lr": 1e-6, "validation": {"every": 1, "patience": 2}}
    made = done(smelt.finetune(base, colours, out=tmp_path / "early", **words))
    assert (made.note.steps, made.best_step) == (3, 1)
    first = done(smelt.finetune(base, colours, out=tmp_path / "first", **{**words, "schedule": "constant"}))
    assert first.best_step == 1
    one = tmp_path / "one"
    smelt.finetune(base, colours, out=one, **{**words, "steps": 1, "schedule": "constant", "validation": None})
    assert all(torch.equal(tensors(one)[name], tensor) for name, tensor in tensors(tmp_path / "first").items())


def test_an_existing_output_is_kept_without_force(tmp_path: Path, base: Path, colours: Path) -> None:
    words: Any = {"out": tmp_path / "expert", "steps": 1, "batch": 2}
    smelt.finetune(base, colours, **words)
    with pytest.raises(OutputError, match="already exists; it is kept"):
        smelt.finetune(base, colours, **words)
    smelt.finetune(base, colours, force=True, **words)


def test_the_note_has_what_the_expert_follows_from(tmp_path: Path, base: Path, colours: Path) -> None:
    smelt.finetune(base, colours, out=tmp_path / "expert", recipe="fusionbench-clip", steps=2, batch=4)
    note = json.loads((tmp_path / "expert" / "training.json").read_text())
    assert note["base"]["ref"] == str(base)
    assert len(note["base"]["files"]["model.safetensors"]) == 64
    assert note["data"]["colours"]["examples"] == 18
    assert note["recipe"]["source"].startswith("FusionBench")
    assert len(note["losses"]) == note["steps"] == 2
    manifest = json.loads((tmp_path / "expert" / "manifest.json").read_text())
    assert manifest["parents"]["base"]["files"] == note["base"]["files"]


def test_two_tasks_are_learned_together(tmp_path: Path, base: Path, colours: Path) -> None:
    other = write_colours(tmp_path / "paints", 4)
    made = done(smelt.finetune(base, [colours, other], out=tmp_path / "both", steps=2, batch=4))
    assert set(made.note.data) == {"colours", "paints"}


def test_the_plan_counts_what_is_trained_and_reads_no_number(tmp_path: Path, base: Path, colours: Path) -> None:
    for method, more in (("full", {}), ("lora", {"rank": 3})):
        words: Any = {"out": tmp_path / method, "method": method, "steps": 1, "batch": 4, **more}
        plan = smelt.finetune(base, colours, dry_run=True, **words)
        assert isinstance(plan, TrainingPlan)
        assert not (tmp_path / method).exists()
        assert plan.trained == done(smelt.finetune(base, colours, **words)).note.trained
        assert plan.examples == {"colours": 18}
    full = smelt.finetune(base, colours, out=tmp_path / "other", steps=1, dry_run=True)
    assert isinstance(full, TrainingPlan)
    assert full.memory == 4 * full.parameters + 12 * full.trained
    assert full.checkpoint == 12 * full.trained


def test_what_cannot_fit_is_refused_before_anything_is_read(tmp_path: Path, colours: Path) -> None:
    words = tmp_path / "words"
    from pico_training import write_words

    write_words(words)
    with pytest.raises((RecipeError, OutputError), match="GB"):
        smelt.finetune("shape:gemma-2-9b@float32", words, out=tmp_path / "expert", steps=1, dry_run=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"recipe": "mergebench-sft-3b", "steps": 1}, "colours is a task of pictures"),
        ({"steps": 1, "weights": "bfloat16", "precision": "bfloat16"}, "a picture tower is trained in float32"),
        ({"steps": 1, "method": "lora", "lora.layers": ["q_prj"]}, "no linear layer 'q_prj' to train"),
        ({"steps": 1, "trained": ["nothing.*"]}, "nothing is left to train"),
        ({"steps": 1, "split": "training"}, "no split named 'training'"),
        ({"steps": 1, "device": "cuda:1"}, "device: "),
    ],
)
def test_what_cannot_be_trained_is_refused(
    tmp_path: Path, base: Path, colours: Path, words: dict[str, Any], said: str
) -> None:
    with pytest.raises(RecipeError) as refused:
        smelt.finetune(base, colours, out=tmp_path / "expert", **words)
    assert said in str(refused.value)
    assert not list(tmp_path.glob("*expert*"))
