"""A paper's expert from a base and a data set of the Hub, by the documents' own commands, on a stand-in hub."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pico_clip import COLOURS, TEMPLATES, colour_pictures, random_clip, save_clip
from pico_llama import pairs, write_llama
from stand_in_hub import StandInHub

CLIP, COLOUR_DATA = "stand-in/finetune-clip", "stand-in/finetune-colours"
LLAMA, CHAT_DATA = "stand-in/finetune-llama", "stand-in/finetune-chat"


@pytest.fixture
def hub(stand_in: StandInHub, tmp_path: Path) -> StandInHub:
    """Layouts as on the Hub: `from_pretrained` folders, data sets as parquet with pictures or texts."""
    stand_in.contents.add_model(CLIP, save_clip(random_clip(), tmp_path / "made" / "clip"))
    stand_in.contents.add_model(LLAMA, write_llama(tmp_path / "made" / "llama"))
    stand_in.contents.add_dataset(
        COLOUR_DATA,
        {f"data/{split}-00000-of-00001.parquet": pictures(seed) for seed, split in enumerate(("train", "test"))},
    )
    stand_in.contents.add_dataset(CHAT_DATA, {"data/train-00000-of-00001.parquet": texts()})
    return stand_in


def pictures(seed: int) -> bytes:
    from datasets import ClassLabel, Dataset, Features, Image
    from PIL import Image as Pictures

    pixels, labels = colour_pictures(dict.fromkeys(COLOURS, 10), seed)
    features = Features({"image": Image(), "label": ClassLabel(names=list(COLOURS))})
    rows = {"image": [Pictures.fromarray(one) for one in pixels], "label": labels.tolist()}
    return parquet(Dataset.from_dict(rows, features=features))


def texts() -> bytes:
    from datasets import Dataset

    return parquet(Dataset.from_list([{"query": prompt, "response": answer} for prompt, answer in pairs(12)]))


def parquet(rows: Any) -> bytes:
    file = io.BytesIO()
    rows.to_parquet(file)
    return file.getvalue()


def write(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True)
    (folder / name).write_text(yaml.safe_dump(dict(content), sort_keys=False))
    return folder


def test_fusionbench_s_expert_of_a_clip_on_the_hub(hub: StandInHub, cli: Callable[..., Any], tmp_path: Path) -> None:
    data = {"dataset": COLOUR_DATA, "splits": {"train": "train", "test": "test"}, "held_out": {"fraction": 0.2}}
    task = {"name": "colours", "classes": list(COLOURS), "templates": list(TEMPLATES), "data": data}
    folder = write(tmp_path / "colours", "task.yaml", task)
    words = ["finetune", f"hf:{CLIP}", "--tasks", folder, "--recipe", "fusionbench-clip", "-o", tmp_path / "expert"]
    plan = cli(*words, "--dry-run", "--json")
    assert plan.code == 0, plan.err
    assert json.loads(plan.out)["steps"] == 4000
    ran = cli(*words, "--steps", 3, "--set", "validation.every=3", "--json")
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    assert said["data"]["colours"]["examples"] == 24
    assert (said["recipe"]["batch"], said["recipe"]["optimiser"]) == (32, "adam")
    ran = cli("eval", tmp_path / "expert", "--tasks", folder, "--text-from", f"hf:{CLIP}", "--quiet")
    assert ran.code == 0, ran.err


def test_mergebench_s_expert_of_a_language_model_on_the_hub(
    hub: StandInHub, cli: Callable[..., Any], tmp_path: Path
) -> None:
    task = {
        "task": "chat",
        "dataset_path": CHAT_DATA,
        "training_split": "train",
        "output_type": "generate_until",
        "doc_to_text": "{{query}}",
        "doc_to_target": "{{response}}",
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1, "chat": True},
    }
    folder = write(tmp_path / "chat", "harness.yaml", task)
    words = ["finetune", f"hf:{LLAMA}", "--tasks", folder, "--recipe", "mergebench-sft-3b"]
    ran = cli(*words, "--batch", 4, "-o", tmp_path / "whole", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["steps"] == 6  # two epochs of twelve texts, four in a step
    ran = cli(*words, "--batch", 4, "--method", "lora", "--rank", 2, "--output", "adapter", "-o", tmp_path / "thin")
    assert ran.code == 0, ran.err
    config = json.loads((tmp_path / "thin" / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["r"]) == (LLAMA, 2)
