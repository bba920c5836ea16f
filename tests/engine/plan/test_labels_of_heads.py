"""Heads of classifiers merge where their labels are the same in the same order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from pico_texts import TEXTS, bert_tokenizer, quiet, write_classifier
from smelt.errors import IncompatibleModels


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("classifiers")
    labels = {"a": ("no", "yes"), "b": ("no", "yes"), "turned": ("yes", "no"), "other": ("cat", "dog")}
    labels |= {"three": ("no", "yes", "both"), "unnamed": ("LABEL_0", "LABEL_1"), "reward": ("good",)}
    return {name: write_classifier(place / name, seed, some) for seed, (name, some) in enumerate(labels.items())}


def _merge(models: list[Path], out: Path, **words: Any) -> Any:
    return smelt.merge([str(one) for one in models], method="average", out=out, **words)


def _logits(folder: Path) -> torch.Tensor:
    from transformers import AutoModelForSequenceClassification

    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        found: torch.Tensor = model(**bert_tokenizer()(TEXTS, padding=True, return_tensors="pt")).logits
    return found


def test_two_classifiers_average_as_by_hand(models: dict[str, Path], tmp_path: Path) -> None:
    _merge([models["a"], models["b"]], tmp_path / "out")
    states = [load_file(one / "model.safetensors") for one in (models["a"], models["b"], tmp_path / "out")]
    for name, tensor in states[2].items():
        assert torch.equal(tensor, (states[0][name] + states[1][name]) / 2)
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["id2label"] == {"0": "no", "1": "yes"}
    assert _logits(tmp_path / "out").shape == (6, 2)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("turned", "the labels of turned are in another order: no, yes in a but yes, no in turned"),
        ("other", "the labels of other are others: no, yes in a but cat, dog in other"),
        ("three", r"'classifier.weight' is \(2, 16\) in a but \(3, 16\) in three"),
    ],
)
def test_other_labels_are_refused_by_name(models: dict[str, Path], tmp_path: Path, other: str, said: str) -> None:
    with pytest.raises(IncompatibleModels, match=said):
        _merge([models["a"], models[other]], tmp_path / "out", config="a")


@pytest.mark.parametrize("other", ["turned", "three"])
def test_heads_that_are_not_merged_may_differ(models: dict[str, Path], tmp_path: Path, other: str) -> None:
    _merge([models["a"], models[other]], tmp_path / "out", skip=["classifier.*"])
    ours, out = (load_file(one / "model.safetensors") for one in (models["a"], tmp_path / "out"))
    assert torch.equal(out["classifier.weight"], ours["classifier.weight"])
    assert not torch.equal(out["bert.pooler.dense.weight"], ours["bert.pooler.dense.weight"])


def test_labels_without_names_say_nothing(models: dict[str, Path], tmp_path: Path) -> None:
    _merge([models["a"], models["unnamed"]], tmp_path / "out")


def test_the_check_of_models_tells_it_too(models: dict[str, Path]) -> None:
    said = smelt.check_models([str(models["a"]), str(models["turned"])])
    assert any("in another order" in fault for fault in said.faults)


def test_two_llama_like_reward_models_average_as_by_hand(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    for seed, name in enumerate("ab"):
        torch.manual_seed(seed)
        with quiet():
            config = LlamaConfig(vocab_size=60, num_labels=1, pad_token_id=0, **sizes)
            LlamaForSequenceClassification(config).save_pretrained(tmp_path / name)
            bert_tokenizer().save_pretrained(tmp_path / name)
    _merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    states = [load_file(tmp_path / name / "model.safetensors") for name in ("a", "b", "out")]
    assert "score.weight" in states[2]
    assert all(torch.equal(tensor, (states[0][name] + states[1][name]) / 2) for name, tensor in states[2].items())
    assert _logits(tmp_path / "out").shape == (6, 1)


def _without_head(model: Path, out: Path) -> Path:
    shutil.copytree(model, out)
    state = load_file(out / "model.safetensors")
    kept = {name: tensor for name, tensor in state.items() if not name.startswith("classifier.")}
    save_file(kept, out / "model.safetensors", metadata={"format": "pt"})
    return out


def test_a_model_without_a_head_takes_the_bases_where_the_recipe_says_so(
    models: dict[str, Path], tmp_path: Path
) -> None:
    bare = _without_head(models["b"], tmp_path / "bare")
    words: dict[str, Any] = {"base": str(models["a"]), "method": "task_arithmetic"}
    with pytest.raises(IncompatibleModels, match=r"bare lacks 'classifier\.bias'"):
        smelt.merge([str(bare)], out=tmp_path / "out", **words)
    smelt.merge([str(bare)], out=tmp_path / "out", missing="base", **words)
    head = [load_file(one / "model.safetensors")["classifier.weight"] for one in (models["a"], tmp_path / "out")]
    assert torch.equal(*head)


def test_a_head_that_the_base_lacks_is_refused_by_name(models: dict[str, Path], tmp_path: Path) -> None:
    bare = _without_head(models["a"], tmp_path / "bare")
    with pytest.raises(IncompatibleModels, match=r"b has 'classifier\.bias', 'classifier\.weight', which base lacks"):
        smelt.merge([str(models["b"])], base=str(bare), method="task_arithmetic", out=tmp_path / "out")
