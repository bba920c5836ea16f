"""What UQ-Merge needs of the Hub, under the public names: LLaVA-1.5-7B's parts, and the data sets that lmms-eval names.

Models are the pico LLaVA in LLaVA's own layout. The language model, the tower and the jointly trained model are stored
as pickles, as theirs are, and the projector of the first stage alone. Tokenizers are `tokenizer.json`, where the public
ones are `tokenizer.model`: no library here writes that. Data sets are parquet files with pictures, in the columns,
configurations and splits that lmms-eval's tasks read. The paper's ten fine-tunes are on no hub: `save_experts` writes
them as folders.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stand_in_hub.contents import Contents

TOWER = "openai/clip-vit-large-patch14-336"
LANGUAGE = "lmsys/vicuna-7b-v1.5"
PROJECTOR = "liuhaotian/llava-v1.5-mlp2x-336px-pretrain-vicuna-7b-v1.5"
JOINT = "liuhaotian/llava-v1.5-7b"
EXPERTS = ("okvqa", "ocrvqa", "gqa", "vqav2", "textcaps", "aokvqa", "refcoco", "llava-instruct", "sharegpt", "vg")
_LONG: dict[str, Any] = {"max_position_embeddings": 4096}
_ANIMALS = ("cat", "dog", "cow", "hen", "fox", "owl")
_MMMU = {f"image_{number}": None for number in range(2, 8)}


def add_uqmerge(contents: Contents, *, rows: int = 4) -> None:
    """All models and data sets. Models are made at once: transformers asks the Hub while it saves a tokenizer, and who
    makes a repository that was asked for holds the others up.
    """
    from smelt.testing.pico_own_llava import save_language, save_own_llava, save_projector, save_tower

    models: dict[str, Callable[[Path], object]] = {
        TOWER: lambda folder: save_tower(folder, pickled=True),
        LANGUAGE: lambda folder: save_language(folder, pickled=True, **_LONG),
        PROJECTOR: lambda folder: save_projector(folder, TOWER, **_LONG),
        JOINT: lambda folder: save_own_llava(folder, TOWER, change=0.07, pickled=True, model_type="llava", **_LONG),
    }
    for name, save in models.items():
        contents.add_model(name, _made(save))
    for name, make in _DATA.items():
        contents.later("datasets", name, lambda make=make: make(rows))  # type: ignore[misc]


def save_experts(folder: Path, names: Sequence[str] = EXPERTS) -> Path:
    """Fine-tunes as LLaVA's training code leaves them: safetensors in two shards, `llava_llama`, without the tower."""
    from smelt.testing.pico_own_llava import save_own_llava

    for number, name in enumerate(names):
        save_own_llava(folder / name, TOWER, change=0.05 + 0.06 * number, **_LONG)
    return folder


def save_oodcv(folder: Path, rows: int = 4) -> tuple[Path, Path]:
    """`oodcv-vqa.json` as PahaII/vllm_safety_evaluation has it, and the folder of its pictures."""
    pictures = folder / "images"
    pictures.mkdir(parents=True)
    records = []
    for number in range(rows):
        (pictures / f"{number}.png").write_bytes(_picture(number)["bytes"])
        about = {"image": f"{number}.png", "question": "How many cars are there?", "answer_type": "number"}
        options = [f"cars {number % 3}", f"cars {number % 3 + 1}"]
        records.append({**about, "text_answer": str(number % 3), "options": options})
    records.append({"image": "0.png", "question": "Is it a car?", "answer_type": "yes/no", "text_answer": "yes"})
    (folder / "oodcv-vqa.json").write_text(json.dumps(records))
    return folder / "oodcv-vqa.json", pictures


def _made(save: Callable[[Path], object]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as scratch:
        save(Path(scratch))
        return {path.name: path.read_bytes() for path in Path(scratch).iterdir() if path.is_file()}


def _picture(number: int) -> dict[str, Any]:
    from PIL import Image

    pixels = np.random.default_rng(number).integers(0, 256, (9, 9 + number % 3, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": f"{number}.png"}


def _options(number: int, count: int = 4) -> list[str]:
    return [_ANIMALS[(number + place) % len(_ANIMALS)] for place in range(count)]


def _parquet(records: Sequence[Mapping[str, Any]], pictures: Sequence[str], many: Sequence[str] = ()) -> bytes:
    """A table whose columns of these names are pictures, or lists of them."""
    import datasets

    made = datasets.Dataset.from_list([dict(one) for one in records])
    for column in pictures:
        made = made.cast_column(column, datasets.Image())
    for column in many:
        made = made.cast_column(column, datasets.List(datasets.Image()))
    file = io.BytesIO()
    made.to_parquet(file)
    return file.getvalue()


def _repository(files: Mapping[tuple[str, str], bytes]) -> dict[str, bytes]:
    """Parquet files by (configuration, split), with the README that says so."""
    configs: dict[str, list[dict[str, str]]] = {}
    found: dict[str, bytes] = {}
    for (config, split), content in files.items():
        path = f"{'data' if config == 'default' else config}/{split}-00000-of-00001.parquet"
        found[path] = content
        configs.setdefault(config, []).append({"split": split, "path": path})
    told = [{"config_name": config, "data_files": some} for config, some in configs.items()]
    return {**found, "README.md": f"---\nconfigs: {json.dumps(told)}\n---\n".encode()}


def _one(
    config: str, split: str, record: Callable[[int], dict[str, Any]], picture: str = "image"
) -> Callable[[int], dict[str, bytes]]:
    def make(rows: int) -> dict[str, bytes]:
        records = [{picture: _picture(number), **record(number)} for number in range(rows)]
        return _repository({(config, split): _parquet(records, [picture])})

    return make


def _gqa(rows: int) -> dict[str, bytes]:
    asked = [
        {"id": str(n), "imageId": str(n), "question": "What is it?", "answer": _ANIMALS[n % 6], "fullAnswer": "It is."}
        for n in range(rows)
    ]
    shown = [{"id": str(n), "image": _picture(n)} for n in range(rows)]
    return _repository(
        {
            ("testdev_balanced_instructions", "testdev"): _parquet(asked, []),
            ("testdev_balanced_images", "testdev"): _parquet(shown, ["image"]),
        }
    )


def _seed(rows: int) -> dict[str, bytes]:
    records = []
    for n in range(rows + 1):
        letters = {f"choice_{letter}": word for letter, word in zip("abcd", _options(n), strict=True)}
        kind = {"data_type": "video" if n == rows else "image", "question_type_id": 10 if n == rows else 1 + n % 9}
        about = {"question": "What is it?", "question_id": str(n), "data_id": str(n), "answer": "ABCD"[n % 4]}
        records.append({"image": [_picture(n)], **about, **kind, **letters})
    return _repository({("default", "test"): _parquet(records, [], ["image"])})


def _vqa(number: int) -> dict[str, Any]:
    word = _ANIMALS[number % 6]
    return {"question": "What is it?", "question_id": str(number), "answers": [word] * 10, "answer": word}


def _vqav2(number: int) -> dict[str, Any]:
    word = _ANIMALS[number % 6]
    answers = [{"answer": word, "answer_confidence": "yes", "answer_id": place} for place in range(10)]
    about = {"question_type": "what", "answer_type": "other", "multiple_choice_answer": word, "image_id": number}
    return {"question": "What is it?", "question_id": number, "answers": answers, **about}


def _science(number: int) -> dict[str, Any]:
    about = {"question": "Which is it?", "hint": "Look at it." if number % 2 else "", "task": "closed choice"}
    return {**about, "choices": _options(number, 2 + number % 2), "answer": number % 2}


def _mmbench(number: int) -> dict[str, Any]:
    own = _options(number, 2 + number % 3)
    letters = {letter: own[place] if place < len(own) else "nan" for place, letter in enumerate("ABCD")}
    about = {"index": number, "question": "Which is it?", "hint": "nan", "answer": "AB"[number % 2], "source": "s"}
    return {**about, **letters, "split": "dev", "category": "c", "L2-category": "l"}


def _mmmu(number: int) -> dict[str, Any]:
    about = {"id": f"validation_Art_{number}", "question": "What is <image 1>?", "question_type": "multiple-choice"}
    return {**about, "options": str(_options(number)), "answer": "ABCD"[number % 4], "subfield": "Art", **_MMMU}


def _plus(number: int) -> dict[str, Any]:
    letters = {f"choice_{letter}": word for letter, word in zip("ABCD", _options(number), strict=True)}
    about = {"question": "What is it?", "question_id": str(number), "answer": "ABCD"[number % 4]}
    return {**about, **letters, "question_image_type": ("chart", "map", "web")[number % 3]}


def _ocr(number: int) -> dict[str, Any]:
    about = {"dataset": "IIIT5K", "question": "what is written?", "question_type": "Regular Text Recognition"}
    return {**about, "answer": [_ANIMALS[number % 6]]}


_DATA: dict[str, Callable[[int], dict[str, bytes]]] = {
    "lmms-lab-encoder/ai2d": _one(
        "default", "test", lambda n: {"question": "What is it?", "options": _options(n), "answer": str(n % 4)}
    ),
    "lmms-lab-encoder/ScienceQA": _one("ScienceQA-IMG", "test", _science),
    "lmms-lab-encoder/SEED-Bench": _seed,
    "lmms-lab-encoder/MMBench": _one("en", "dev", _mmbench),
    "lmms-lab-encoder/OK-VQA": _one("default", "val2014", _vqa),
    "lmms-lab-encoder/textvqa": _one("default", "validation", lambda n: {**_vqa(n), "ocr_tokens": ["a"]}),
    "lmms-lab-encoder/GQA": _gqa,
    "lmms-lab-encoder/MMMU": _one("default", "validation", _mmmu, "image_1"),
    "lmms-lab-encoder/VizWiz-VQA": _one("default", "val", lambda n: {**_vqa(n), "category": "other"}),
    "lmms-lab-encoder/VQAv2": _one("default", "validation", _vqav2),
    "lmms-lab-encoder/POPE": _one(
        "default",
        "test",
        lambda n: {"id": str(n), "question_id": str(n), "question": "Is it?", "answer": "yes", "category": "random"},
    ),
    "lmms-lab-encoder/RealWorldQA": _one("default", "test", lambda n: {"question": "What?", "answer": "ABCD"[n % 4]}),
    "doolayer/SEED-Bench-2-Plus": _one("default", "test", _plus),
    "echo840/OCRBench": _one("default", "test", _ocr),
}
