"""Trained parts -> the zoo: `llava-tiny` without the tower that clip-tiny has already, and adapters of eight bits.

python zoo/build/multimodal/place.py --trained FOLDER --tokenizer FOLDER

Takes the base, and those experts that are there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

sys.path.append(str(Path(__file__).resolve().parents[1]))

from distributions import folder_of
from lowrank import place_adapter
from smelt.models.zoo.towers_origin import Tower, weights_hash
from train import FAMILIES, JOINT, SHAPE

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parent / "records"
BASE, CLIP = "llava-tiny", "clip-tiny"
TOWER = {"model.vision_tower.": {"from": f"zoo:{CLIP}", "prefix": "vision_model."}}


def config(tokenizer) -> dict:
    vision = json.loads((folder_of(CLIP) / "config.json").read_text())["vision_config"]
    text = {
        "model_type": "llama",
        "vocab_size": len(tokenizer),
        "num_key_value_heads": SHAPE["num_attention_heads"],
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        **SHAPE,
    }
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "dtype": "bfloat16",
        "image_token_index": tokenizer.convert_tokens_to_ids("<image>"),
        "image_seq_length": 16,
        "projector_hidden_act": "gelu",
        "multimodal_projector_bias": True,
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        "tie_word_embeddings": True,
        "vision_config": vision,
        "text_config": text,
    }


def place_base(trained: Path, words: Path) -> None:
    """Projector and language model in bfloat16, with the files of tokenizer and processor."""
    from transformers import PreTrainedTokenizerFast

    folder = folder_of(BASE)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(words)
    tokenizer.save_pretrained(folder)
    template = tokenizer.chat_template
    (folder / "chat_template.jinja").write_text(template)
    _write_json(folder / "config.json", config(tokenizer))
    shutil.copyfile(folder_of(CLIP) / "preprocessor_config.json", folder / "preprocessor_config.json")
    _write_json(
        folder / "processor_config.json",
        {
            "processor_class": "LlavaProcessor",
            "image_token": "<image>",
            "patch_size": 8,
            "vision_feature_select_strategy": "default",
            "num_additional_image_tokens": 1,
        },
    )
    _write_json(
        folder / "generation_config.json",
        {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id},
    )
    exact: dict[str, Tensor] = torch.load(trained / "base.pt", map_location="cpu")
    part = folder / "part.safetensors"
    tensors = {f"model.{key}": value.to(torch.bfloat16).contiguous() for key, value in sorted(exact.items())}
    save_file(tensors, part, metadata={"format": "pt"})
    towers = {place: Tower.model_validate(one) for place, one in TOWER.items()}
    count = sum(value.numel() for value in tensors.values())
    _write_json(
        folder / "origin.json",
        {
            "kind": "towers",
            "config": "config.json",
            "weights": part.name,
            "towers": TOWER,
            "weights_sha256": weights_hash(part, towers),
            "parameters": count + _tower_count(),
            "bytes": 2 * (count + _tower_count()),
        },
    )


def _tower_count() -> int:
    found = [load_file(path) for path in folder_of(CLIP).glob("*.safetensors")]
    return sum(value.numel() for one in found for key, value in one.items() if key.startswith("vision_model."))


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trained", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    given = parser.parse_args()
    place_base(given.trained, given.tokenizer)
    (RECORDS / f"{BASE}.json").write_text((given.trained / "base.json").read_text())
    (RECORDS / "mllm10-overtrained.json").write_text((given.trained / "overtrained.json").read_text())
    for name in (*FAMILIES, JOINT):
        if not (given.trained / name / "training.json").is_file():
            continue
        lost = place_adapter(given.trained / name, folder_of(f"mllm10-{name}"), f"zoo:{BASE}", inside="model.")
        record = json.loads((given.trained / name / "training.json").read_text())
        record["rounding"] = {"format": "float8_e4m3", "relative_error": round(lost, 4)}
        (RECORDS / f"mllm10-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(f"mllm10-{name}: rank {record['rank']}, rounding loses {100 * lost:.1f} %")


if __name__ == "__main__":
    main()
