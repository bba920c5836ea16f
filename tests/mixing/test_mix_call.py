from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import smelt.mixing
from mixing_by_hand import clip_pool
from pico_clip import COLOURS, TEMPLATES, write_task
from smelt.errors import CorruptFile, IncompatibleModels, InputChanged, OutputError, RecipeError
from smelt.mixing.checkpoint import save_routers
from smelt.mixing.classifier import load_mixed
from smelt.mixing.mix import mix
from smelt.models.families.load import load
from smelt.models.families.network import network_of
from smelt.prepare.evaluate import evaluate
from smelt.recipe.schema import Recipe
from smelt.tasks.examples import ArrayStream


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    """Two experts with a task each, and a few steps of learning."""
    pool = clip_pool(tmp_path / "models")
    tasks = {name: str(write_task(tmp_path / "tasks" / f"{name}-task")) for name in pool["models"]}
    return {
        "pool": pool,
        "merge": {"wemoe": {"steps": 3, "lr": 0.01, "batch": 4}},
        "data": {"tasks": tasks, "examples": 12},
    }


def _pictures(count: int = 7) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (count, 8, 8, 3), dtype=np.uint8)


def _logits(model: Any, count: int = 7) -> torch.Tensor:
    return model.logits(_pictures(count), model.head(tuple(COLOURS), TEMPLATES))


def test_a_mixture_is_learned_saved_and_loaded_again(tmp_path: Path, recipe: dict[str, Any]) -> None:
    done = mix(recipe, out=tmp_path / "mixed")
    assert [line["step"] for line in done.trace] == [0, 1, 2]
    assert list(done.trace[0]["loss"]) == ["one", "two"]
    assert (done.budget.split, done.budget.images, done.budget.labels) == ("val", 24, 0)
    assert done.note.experts == ["one", "two"]
    assert done.note.tasks == {"one": "one-task", "two": "two-task"}
    assert done.routing is not None
    assert (done.routing["rows"], done.routing["columns"]) == (["one-task", "two-task"], ["one", "two"])
    first, second = done.load(), load_mixed(tmp_path / "mixed")
    assert first.hash == second.hash
    assert torch.equal(_logits(first), _logits(second))
    assert smelt.verify(tmp_path / "mixed").ok


def test_what_was_learned_on_is_what_is_saved(
    tmp_path: Path, recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from smelt.mixing import mixed_folder as folder

    seen: list[torch.Tensor] = []
    real = folder.write_mixed

    def spy(mixed: Any, *rest: Any, **words: Any) -> Any:
        with torch.inference_mode():
            base = load(recipe["pool"]["base"], "classifier")
            pixels = base.preprocess.normalise(torch.from_numpy(_pictures()), torch.float32)
            seen.append(mixed.logits(pixels, base.head(tuple(COLOURS), TEMPLATES)))
        return real(mixed, *rest, **words)

    monkeypatch.setattr(folder, "write_mixed", spy)
    done = mix({**recipe, "dtype": "bfloat16"}, out=tmp_path / "mixed", delta_dtype="float16")
    torch.testing.assert_close(_logits(done.load()), seen[0], rtol=0, atol=1e-6)


def test_a_saved_mixture_is_evaluated_like_any_model(tmp_path: Path, recipe: dict[str, Any]) -> None:
    mix(recipe, out=tmp_path / "mixed", steps=1)
    task = recipe["data"]["tasks"]["one"]
    one, many = (evaluate(tmp_path / "mixed", task, batch=batch)[0] for batch in (1, 64))
    assert (one.n, one.accuracy) == (30, many.accuracy)
    assert one.loss == pytest.approx(many.loss, abs=1e-6)
    assert one.model_hash == load_mixed(tmp_path / "mixed").hash
    assert one.recipe is not None
    assert one.recipe["merge"] == [{"wemoe": {"steps": 1, "lr": 0.01, "batch": 4}}]


def test_it_is_no_single_model(tmp_path: Path, recipe: dict[str, Any]) -> None:
    mix(recipe, out=tmp_path / "mixed", steps=0)
    with pytest.raises(RecipeError, match="is not one model with weights of its own"):
        network_of(load_mixed(tmp_path / "mixed"))


def test_without_steps_no_data_is_touched(tmp_path: Path, recipe: dict[str, Any]) -> None:
    done = mix({"pool": recipe["pool"], "merge": "wemoe"}, out=tmp_path / "mixed", steps=0)
    assert (done.trace, done.routing, done.budget.images) == ([], None, 0)


def test_without_a_place_it_is_made_once(recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    first = mix(recipe)
    from smelt.optimise import loop

    monkeypatch.setattr(loop, "optimise", lambda *_, **__: pytest.fail("learned twice"))
    second = mix(recipe)
    assert (first.cached, second.cached) == (False, True)
    assert (second.folder, second.note, second.routing) == (first.folder, first.note, first.routing)
    assert [line["loss"] for line in second.trace] == [line["loss"] for line in first.trace]


def test_another_request_is_another_mixture(recipe: dict[str, Any]) -> None:
    words: list[dict[str, Any]] = [{}, {"seed": 1}, {"top": 1}, {"steps": 2}, {"density": 0.5}, {"loss": "labels"}]
    folders = [mix(recipe, **one).folder for one in words]
    assert len(set(folders)) == len(words)


def test_a_run_that_was_interrupted_goes_on(
    tmp_path: Path, recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mix(recipe, out=tmp_path / "whole", resume=False)
    from smelt.optimise import loop

    real = loop.optimise

    def stopped(*given: Any, tell: Any, **words: Any) -> Any:
        real(*given, tell=tell, **{**words, "stop": iter([False, True]).__next__})
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "optimise", stopped)
    with pytest.raises(KeyboardInterrupt):
        mix(recipe, out=tmp_path / "stopped", resume=False)
    assert not (tmp_path / "stopped").exists()
    monkeypatch.setattr(loop, "optimise", real)
    again = mix(recipe, out=tmp_path / "stopped")
    assert again.note.sha256 == whole.note.sha256


def test_it_takes_models_and_streams_too(tmp_path: Path, recipe: dict[str, Any]) -> None:
    base = load(recipe["pool"]["base"], "classifier")
    head = base.head(tuple(COLOURS), TEMPLATES)
    inputs, labels = torch.randn(8, 3, 8, 8), torch.zeros(8, dtype=torch.int64)
    streams = {name: ArrayStream(f"{name} stream", inputs, labels, head) for name in ("one", "two")}
    pool = recipe["pool"]
    done = smelt.mix(
        pool["models"], base=pool["base"], streams=streams, steps=2, batch=2, loss="labels", out=tmp_path / "mixed"
    )
    assert (done.budget.images, done.budget.labels, done.budget.split) == (16, 16, None)
    assert done.note.tasks == {"one": "one stream", "two": "two stream"}
    with pytest.raises(RecipeError, match=r"no model named 'three'.*no stream of examples for 'two'"):
        mix(pool["models"], base=pool["base"], streams={"one": streams["one"], "three": streams["two"]})


def test_learned_routers_can_be_carried_to_another_mixture(tmp_path: Path, recipe: dict[str, Any]) -> None:
    learned = mix(recipe, out=tmp_path / "learned")
    path = save_routers(learned.load().routers, tmp_path / "routers.ckpt")
    again = mix({"pool": recipe["pool"], "merge": "wemoe"}, routers=path, out=tmp_path / "again")
    assert again.trace == []
    assert torch.equal(_logits(again.load()), _logits(learned.load()))


def test_include_and_skip_say_what_the_experts_may_change(tmp_path: Path, recipe: dict[str, Any]) -> None:
    from smelt.formats.open import open_path

    def read(folder: str | Path, key: str) -> list[float]:
        source = open_path(Path(folder) / "model.safetensors")
        flat = torch.empty(source.tensors[key].count)
        source.read(key, 0, flat)
        source.close()
        return flat.tolist()

    mix({**recipe, "skip": ["*.self_attn.*"], "include": "vision_model.*"}, out=tmp_path / "mixed", steps=0)
    kept, merged = (f"vision_model.encoder.layers.0.{name}.bias" for name in ("self_attn.k_proj", "layer_norm1"))
    base = recipe["pool"]["base"]
    assert read(tmp_path / "mixed", kept) == read(base, kept)
    assert read(tmp_path / "mixed", merged) != read(base, merged)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"merge": "ties"}, "no way to mix named 'ties'"),
        ({"merge": ["dare", "wemoe"]}, "a mixture is one stage, not a pipeline of dare, wemoe"),
        ({"merge": {"wemoe": {"stpes": 3}}}, r"wemoe has no parameter 'stpes' \(did you mean 'steps'\?\)"),
        ({"merge": {"wemoe": {"lr": 0}}}, "wemoe.lr: input should be greater than 0, got 0"),
        ({"merge": {"wemoe": {"top": 3}}}, "wemoe.top: there are 2 models, so at most 2 can be used, got 3"),
        ({"merge": {"wemoe": {"scale": {"depth": [0, 1]}}}}, "wemoe.scale is one value for the whole model"),
        ({"lora": 4}, "lora: a mixture does not know this word of a recipe"),
        ({"data": None}, r"no data for 'one', 'two': there is no task of that name"),
    ],
)
def test_a_recipe_that_cannot_be_mixed_is_refused(recipe: dict[str, Any], change: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        mix({**recipe, **change})


def test_too_few_examples_are_refused(recipe: dict[str, Any]) -> None:
    recipe["data"]["examples"] = 31
    with pytest.raises(RecipeError, match="31 examples are asked for, but its val split has 30"):
        mix(recipe)


def test_a_base_is_needed(recipe: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match="wemoe needs the base that the models were fine-tuned from"):
        mix(recipe["pool"]["models"])


def test_models_in_memory_are_pointed_to_the_right_door() -> None:
    state = {"weight": torch.zeros(1)}
    with pytest.raises(RecipeError, match=r"for models in memory see `smelt.mixing.network.mixed_network`"):
        mix({"a": state}, base=state)


def test_an_existing_output_is_kept(tmp_path: Path, recipe: dict[str, Any]) -> None:
    mix(recipe, out=tmp_path / "mixed", steps=0)
    (tmp_path / "mixed" / "note.txt").write_text("on that mixture")
    with pytest.raises(OutputError, match="already exists; it is kept"):
        mix(recipe, out=tmp_path / "mixed")
    assert (tmp_path / "mixed" / "note.txt").read_text() == "on that mixture"
    mix(recipe, out=tmp_path / "mixed", force=True, steps=0)
    assert not (tmp_path / "mixed" / "note.txt").exists()


def test_a_failure_leaves_nothing_behind(
    tmp_path: Path, recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from smelt.mixing import mixed_folder as folder

    monkeypatch.setattr(folder, "encode_manifest", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        mix(recipe, out=tmp_path / "out" / "mixed", steps=0)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.fixture
def mixed(tmp_path: Path, recipe: dict[str, Any]) -> Path:
    return mix(recipe, out=tmp_path / "mixed", steps=0).folder


@pytest.mark.parametrize("name", ["model.safetensors", "experts.safetensors", "routers.safetensors"])
def test_a_damaged_folder_is_refused(mixed: Path, name: str) -> None:
    content = bytearray((mixed / name).read_bytes())
    content[-1] ^= 1
    (mixed / name).write_bytes(content)
    with pytest.raises(CorruptFile, match=f"{name} is not the file that mix.json describes"):
        load(mixed, "classifier")
    (mixed / name).unlink()
    with pytest.raises(CorruptFile, match=f"is a mixed model without {name}"):
        load(mixed, "classifier")


def test_a_note_that_lies_is_refused(mixed: Path) -> None:
    note = json.loads((mixed / "mix.json").read_text())
    for change, message in (
        ({"version": 2}, "version 2 of the format; this Smelt reads version 1"),
        ({"experts": ["one", "one"]}, "experts: names, each once"),
        ({"experts": ["one", "two", "three"]}, r"is \(2, 16, 8\), not \(3, 16, 8\)"),
        ({"family": "clop"}, r"no family named 'clop' \(did you mean 'clip'\?\)"),
        ({"method": 3}, "not a mixed model's note"),
    ):
        (mixed / "mix.json").write_text(json.dumps({**note, **change}))
        with pytest.raises(CorruptFile, match=message):
            load_mixed(mixed)
    (mixed / "mix.json").write_text("{")
    with pytest.raises(CorruptFile, match="not readable as JSON"):
        load_mixed(mixed)


def test_a_folder_that_is_no_mixture_is_refused(recipe: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match="is not a mixed model"):
        load_mixed(recipe["pool"]["base"])


def test_a_damaged_mixture_of_the_cache_is_made_again(recipe: dict[str, Any]) -> None:
    first = mix(recipe)
    (first.folder / "experts.safetensors").write_bytes(b"torn")
    again = mix(recipe)
    assert not again.cached
    assert again.note == first.note
    assert [line["loss"] for line in again.trace] == [line["loss"] for line in first.trace]


def test_it_computes_in_bfloat16_too(mixed: Path) -> None:
    exact, rough = _logits(load_mixed(mixed)), _logits(load_mixed(mixed, dtype="bfloat16"))
    assert 0 < (exact - rough).abs().max() < 0.2


def test_a_model_of_another_shape_is_refused(tmp_path: Path, recipe: dict[str, Any]) -> None:
    from transformers import CLIPModel

    from pico_clip import clip_config, save_clip, tokenizer

    config = clip_config(tokenizer())
    config.vision_config.intermediate_size = 12
    recipe["pool"]["models"]["two"] = str(save_clip(CLIPModel(config), tmp_path / "narrow"))
    with pytest.raises(IncompatibleModels, match=r"mlp.fc1.weight' is \(16, 8\) in the base but \(12, 8\) in two"):
        mix(recipe, steps=0)


def test_recipe_files_are_read_with_paths_relative_to_them(tmp_path: Path, recipe: dict[str, Any]) -> None:
    relative = {**recipe, "pool": {"base": "base", "models": {"one": "one", "two": "two"}}}
    path = tmp_path / "models" / "recipe.yaml"
    path.write_text(yaml.safe_dump(relative))
    assert mix(path, steps=0).note.experts == ["one", "two"]
    assert mix(Recipe.parse(recipe), steps=0).note.experts == ["one", "two"]


def test_a_model_that_changes_while_routers_are_learned_gives_no_mixture(
    tmp_path: Path, recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from smelt.mixing import mixed_folder as folder

    weights, real = Path(recipe["pool"]["models"]["one"]) / "model.safetensors", folder.write_mixed

    def changing(*arguments: Any, **words: Any) -> Any:
        weights.write_bytes(weights.read_bytes())
        return real(*arguments, **words)

    monkeypatch.setattr(folder, "write_mixed", changing)
    with pytest.raises(InputChanged, match=r"one/model\.safetensors"):
        mix(recipe, out=tmp_path / "mixed", steps=0)
    assert not list(tmp_path.glob("*mixed*"))


def test_force_keeps_a_folder_that_is_no_mixture(tmp_path: Path, recipe: dict[str, Any]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match=r"no manifest\.json that Smelt wrote"):
        mix(recipe, out=tmp_path / "docs", force=True, steps=0)
    assert (tmp_path / "docs" / "thesis.txt").exists()
