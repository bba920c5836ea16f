from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pico_clip import COLOURS, PROCESSOR, TEMPLATES, random_clip, save_clip, tokenizer
from smelt.errors import RecipeError
from smelt.files.cache import cache_folder
from smelt.formats.open import open_path
from smelt.models.families.clip.family import CLIP, Clip
from smelt.models.families.family import families

CLASSES = tuple(COLOURS)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return save_clip(random_clip(0), tmp_path / "base")


@pytest.fixture
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3)).astype(np.uint8)


def logits(model: Clip, pictures: np.ndarray) -> torch.Tensor:
    return model.logits(pictures, model.head(CLASSES, TEMPLATES))


def tower(folder: Path, out: Path, keep: Callable[[str], bool], rename: Callable[[str], str] = str) -> Path:
    """A folder with a part of a model's tensors, as fine-tunes of the picture tower are published."""
    out.mkdir()
    save_file(
        {rename(n): t for n, t in load_file(folder / "model.safetensors").items() if keep(n)}, out / "model.safetensors"
    )
    config = json.loads((folder / "config.json").read_text())["vision_config"]
    (out / "config.json").write_text(json.dumps({**config, "model_type": "clip_vision_model"}))
    return out


def test_with_one_template_logits_are_those_of_transformers(base: Path, pictures: np.ndarray) -> None:
    from transformers import CLIPModel

    reference, words = CLIPModel.from_pretrained(base).eval(), tokenizer()
    ours = CLIP.load(base)
    pixels = ours.preprocess.normalise(torch.from_numpy(pictures), torch.float32)
    with torch.no_grad():
        tokens = words([TEMPLATES[0].format(name) for name in CLASSES], padding=True, return_tensors="pt")
        expected = reference(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], pixel_values=pixels
        ).logits_per_image
    found = ours.logits(pictures, ours.head(CLASSES, TEMPLATES[:1]))
    assert expected.std() > 0.1
    assert torch.allclose(found, expected, atol=1e-5)


def test_the_head_is_the_normalised_mean_of_normalised_prompts(base: Path) -> None:
    model = CLIP.load(base)
    rows = []
    for name in CLASSES:
        features = [model.head([name], [template])[0] for template in TEMPLATES]  # a lone prompt is normalised
        assert all(float(f.norm()) == pytest.approx(1.0, abs=1e-6) for f in features)
        total = features[0] + features[1]
        rows.append(total / total.norm())
    assert torch.allclose(model.head(CLASSES, TEMPLATES), torch.stack(rows), atol=1e-6)


def test_a_head_by_hand(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two templates whose features are (1, 0, 0) and (0.6, 0.8, 0): their mean (0.8, 0.4, 0) over its norm √0.8.
    model = CLIP.load(base)
    monkeypatch.setattr(Clip, "_text_features", lambda self, tokens: torch.tensor([[1.0, 0, 0], [0.6, 0.8, 0]]))
    expected = torch.tensor([[0.8, 0.4, 0.0]]) / 0.8**0.5
    assert torch.allclose(model.head(["red"], TEMPLATES), expected, atol=1e-7)


def test_a_picture_tower_alone_is_whole_with_the_text_of_another(
    base: Path, tmp_path: Path, pictures: np.ndarray
) -> None:
    expert = save_clip(random_clip(1), tmp_path / "expert")
    plain = tower(expert, tmp_path / "tower", lambda name: name.startswith("vision_model."))
    bare = tower(
        expert,
        tmp_path / "bare",
        lambda name: name.startswith("vision_model."),
        lambda name: name.removeprefix("vision_model."),
    )
    mixed = {n: t for n, t in load_file(base / "model.safetensors").items() if not n.startswith("vision_model.")}
    mixed |= {n: t for n, t in load_file(expert / "model.safetensors").items() if n.startswith("vision_model.")}
    expected = logits(CLIP.load(mixed, text_from=base), pictures)
    loaded = CLIP.load(base)
    for model in (plain, bare, expert, open_path(plain)):
        for text in (base, loaded):
            assert torch.equal(logits(CLIP.load(model, text_from=text), pictures), expected)
    assert not torch.allclose(logits(CLIP.load(expert), pictures), expected)


def test_a_picture_tower_is_computed_as_its_own_config_says(base: Path, tmp_path: Path, pictures: np.ndarray) -> None:
    alone = tower(base, tmp_path / "tower", lambda name: name.startswith("vision_model."))
    same = logits(CLIP.load(alone, text_from=base), pictures)
    config = json.loads((alone / "config.json").read_text())
    (alone / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    assert torch.equal(same, logits(CLIP.load(base), pictures))
    assert not torch.allclose(same, logits(CLIP.load(alone, text_from=base), pictures))


def test_a_state_dict_and_a_module_take_their_config_from_elsewhere(base: Path, pictures: np.ndarray) -> None:
    expected = logits(CLIP.load(base), pictures)
    model = random_clip(0)
    assert torch.equal(logits(CLIP.load(model, text_from=base), pictures), expected)
    assert torch.equal(logits(CLIP.load(model.state_dict(), text_from=base), pictures), expected)
    assert torch.equal(logits(CLIP.load(f"dir:{base}"), pictures), expected)


def test_half_precision_files_are_read_as_they_are(tmp_path: Path, pictures: np.ndarray) -> None:
    half = random_clip(0).half()
    folder = save_clip(half, tmp_path / "half")
    assert torch.equal(logits(CLIP.load(folder), pictures), logits(CLIP.load(half.float(), text_from=folder), pictures))


def test_position_ids_of_old_checkpoints_do_not_matter(base: Path, tmp_path: Path) -> None:
    state = load_file(base / "model.safetensors")
    state["vision_model.embeddings.position_ids"] = torch.arange(5)[None]
    save_file(state, base / "model.safetensors")
    assert CLIP.load(base).hash == CLIP.load(random_clip(0), text_from=base).hash


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda s: s.pop("vision_model.post_layernorm.bias"), "'vision_model.post_layernorm.bias' is missing from"),
        (
            lambda s: s.update({"visual_projection.weight": torch.zeros(4, 8)}),
            r"is \(4, 8\) in .* config says \(3, 8\)",
        ),
        (lambda s: s.update({"head.weight": torch.zeros(2)}), "'head.weight' of .* belongs to no CLIP model"),
    ],
)
def test_weights_that_do_not_fit_are_named(base: Path, break_it: Callable[..., object], message: str) -> None:
    state = load_file(base / "model.safetensors")
    break_it(state)
    save_file(state, base / "model.safetensors")
    with pytest.raises(RecipeError, match=message):
        CLIP.load(base)


def test_a_tower_without_a_text_model_says_what_it_needs(base: Path, tmp_path: Path) -> None:
    alone = tower(base, tmp_path / "tower", lambda name: name.startswith("vision_model."))
    with pytest.raises(RecipeError, match="holds a picture tower only; say with text_from"):
        CLIP.load(alone)
    with pytest.raises(RecipeError, match=r"has no config\.json; say with text_from"):
        CLIP.load(random_clip().state_dict())


def test_a_model_of_another_kind_is_refused(base: Path) -> None:
    (base / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(RecipeError, match=r"is a model of type 'llama', not CLIP \(clip, clip_vision_model, vision"):
        CLIP.load(base)


def test_a_processor_of_another_size_is_refused(base: Path) -> None:
    (base / "preprocessor_config.json").write_text(json.dumps({**PROCESSOR, "crop_size": 6}))
    with pytest.raises(RecipeError, match="its processor makes pictures of 6×6, but the model takes 8×8"):
        CLIP.load(base)


def test_missing_files_around_the_weights_are_named(base: Path) -> None:
    (base / "preprocessor_config.json").unlink()
    with pytest.raises(RecipeError, match=r"has no preprocessor_config\.json"):
        CLIP.load(base)
    (base / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (base / name).unlink(missing_ok=True)
    with pytest.raises(RecipeError, match="has no tokenizer; say with text_from"):
        CLIP.load(base).head(CLASSES, TEMPLATES)


def test_a_prompt_that_is_too_long_is_refused_not_cut(base: Path) -> None:
    with pytest.raises(RecipeError, match=r"'a photo of a red red .* is 17 tokens long, .* reads 12"):
        CLIP.load(base).head(["red " * 10 + "red"], ["a photo of a {}"])


@pytest.mark.parametrize(
    ("words", "message"), [({"device": "tpu"}, "is cpu, cuda or mps"), ({"dtype": "int8"}, "computes in")]
)
def test_a_wrong_device_or_dtype_is_refused(base: Path, words: dict[str, str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        CLIP.load(base, **words)


def test_only_the_picture_tower_is_merged() -> None:
    from fnmatch import fnmatchcase

    names = random_clip().state_dict()
    merged = {name for name in names if any(fnmatchcase(name, pattern) for pattern in families["clip"].merged)}
    assert merged == {name for name in names if name.startswith("vision_model.")}


def test_heads_are_kept_by_content(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    real = Clip._build_head
    monkeypatch.setattr(Clip, "_build_head", lambda self, *words: built.append(words) or real(self, *words))
    first = CLIP.load(base).head(CLASSES, TEMPLATES)
    shutil.copytree(base, tmp_path / "copy")
    assert torch.equal(CLIP.load(tmp_path / "copy").head(CLASSES, TEMPLATES), first)
    assert torch.equal(CLIP.load(random_clip(1), text_from=base).head(CLASSES, TEMPLATES), first)  # another tower
    assert len(built) == 1
    CLIP.load(base).head(CLASSES[::-1], TEMPLATES)
    CLIP.load(base).head(CLASSES, TEMPLATES[:1])
    CLIP.load(save_clip(random_clip(2), tmp_path / "other")).head(CLASSES, TEMPLATES)  # another text tower
    assert len(built) == 4


def test_another_tokenizer_is_another_head(base: Path) -> None:
    CLIP.load(base).head(CLASSES, TEMPLATES)
    config = base / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "note": "changed"}))
    CLIP.load(base).head(CLASSES, TEMPLATES)
    assert len(list((cache_folder() / "heads").iterdir())) == 2


@pytest.mark.parametrize("damage", [lambda b: b[:-4], lambda b: b"", lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:]])
def test_a_damaged_head_is_made_again(base: Path, damage: Callable[[bytes], bytes]) -> None:
    head = CLIP.load(base).head(CLASSES, TEMPLATES)
    (file,) = (cache_folder() / "heads").iterdir()
    sound = file.read_bytes()
    file.write_bytes(damage(sound))
    assert torch.equal(CLIP.load(base).head(CLASSES, TEMPLATES), head)
    assert file.read_bytes() == sound


def test_a_cache_that_cannot_be_written_costs_time_only(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "file"))
    assert CLIP.load(base).head(CLASSES, TEMPLATES).shape == (3, 3)
