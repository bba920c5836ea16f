"""Formats of embedders: folders of sentence-transformers, and tables of texts that models of texts are asked about."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch
from fuzz.damage_files import json_file, lines, raw, safetensors, text, yaml_file
from fuzz.format import Format
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import smelt

__all__ = ["FORMATS"]

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
    {"idx": 3, "name": "3", "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"},
]
BESIDE = {
    "modules.json": MODULES,
    "config.json": {"model_type": "bert", "hidden_size": 4, "num_hidden_layers": 1},
    "1_Pooling/config.json": {"word_embedding_dimension": 4, "pooling_mode_mean_tokens": True},
    "2_Dense/config.json": {"in_features": 4, "out_features": 2, "bias": True},
    "config_sentence_transformers.json": {"prompts": {"query": "q: "}, "similarity_fn_name": "cosine"},
}


def _make_embedders(place: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    for name in ("one", "two"):
        folder = place / name
        for file, content in BESIDE.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(json.dumps(content))
        body = {"embeddings.word_embeddings.weight": (8, 4), "encoder.layer.0.output.dense.weight": (4, 4)}
        save_file(
            {key: torch.randn(shape, generator=draw) for key, shape in body.items()}, folder / "model.safetensors"
        )
        dense = {"linear.weight": torch.randn(2, 4, generator=draw), "linear.bias": torch.randn(2, generator=draw)}
        save_file(dense, folder / "2_Dense/model.safetensors")


def _merge_embedders(place: Path, file: str) -> Any:
    models = [str(place / "one"), str(place / "two")]
    smelt.inspect(models[1])
    smelt.merge(models, method="average", out=place / "out", force=True)
    return smelt.verify(place / "out")


def _embedders_are_right(place: Path, found: Any) -> str | None:
    """Every tensor of every module is the mean of the two, read by the library that owns the files."""
    if not found.ok:
        return f"the output does not verify: {found.faults}"
    for file in ("model.safetensors", "2_Dense/model.safetensors"):
        out = load_file(place / "out" / file)
        try:
            states = [load_file(place / name / file) for name in ("one", "two")]
        except SafetensorError:  # it minds numbers in a header that nothing is read by
            continue
        for name, tensor in out.items():
            mean = (states[0][name].double() + states[1][name].double()) / 2
            if tensor.is_floating_point() and not torch.allclose(tensor.double(), mean, atol=1e-5, equal_nan=True):
                return f"{file}: {name!r} is not the mean"
    return None


# ---- tables of texts

PAIRS = [("a cat", "a dog", 3), ("iron", "gold", 2), ("rain", "snow", 4)]


def _make_tables(place: Path) -> None:
    rows = [{"sentence1": one, "sentence2": other, "score": score} for one, other, score in PAIRS]
    pairs = place / "pairs"
    pairs.mkdir()
    content = {"val": "val.tsv", "test": "test.csv", "train": "train.parquet"}
    (pairs / "pairs.yaml").write_text(f"name: alike\nsplits: {json.dumps(content)}\n")
    (pairs / "val.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *("\t".join(map(str, p)) for p in PAIRS)]))
    (pairs / "test.csv").write_text("\n".join(["sentence1,sentence2,score", *(",".join(map(str, p)) for p in PAIRS)]))
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    (pairs / "train.parquet").write_bytes(sink.getvalue())
    beir = place / "beir"
    (beir / "qrels").mkdir(parents=True)
    texts = [{"_id": f"d{i}", "title": "t", "text": one} for i, (one, _, _) in enumerate(PAIRS)]
    (beir / "corpus.jsonl").write_text("\n".join(map(json.dumps, texts)))
    asked = [{"_id": f"q{i}", "text": other} for i, (_, other, _) in enumerate(PAIRS)]
    (beir / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    judged = [f"q{i}\td{i}\t{score}" for i, (_, _, score) in enumerate(PAIRS)]
    (beir / "qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    (beir / "retrieval.yaml").write_text("name: facts\nsplits: {test: qrels/test.tsv}\nmetric: recall@5\n")
    classes = place / "classes"
    classes.mkdir()
    (classes / "classes.yaml").write_text("name: mood\nsplits: {test: test.jsonl}\nlabels: [bad, good]\n")
    labelled = [{"text": one, "label": i % 2} for i, (one, _, _) in enumerate(PAIRS)]
    (classes / "test.jsonl").write_text("\n".join(map(json.dumps, labelled)))
    better = place / "better"
    better.mkdir()
    (better / "preferences.yaml").write_text("name: better\nsplits: {test: test.jsonl}\n")
    liked = [{"prompt": "?", "chosen": one, "rejected": other} for one, other, _ in PAIRS]
    liked[0]["chosen"] = [{"role": "assistant", "content": "a cat"}]  # type: ignore[assignment]
    (better / "test.jsonl").write_text("\n".join(map(json.dumps, liked)))


def _read_tables(place: Path, file: str) -> Any:
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.registry import find_task

    task: Any = find_task(place / file.partition("/")[0])
    prepared = [task.prepare(split, limit=2, data=DataCache()) for split in task.splits]
    return task, prepared, [task.records(split) for split in task.splits]


def _tables_are_right(place: Path, found: Any) -> str | None:
    """What was taken can be asked: texts with something in them, scores that are numbers, ids that are there."""
    task, _, records = found
    if task.kind == "pairs":
        pairs = [pair for some in records for pair in some]
        if not all(pair.one.strip() and pair.two.strip() and math.isfinite(pair.score) for pair in pairs):
            return "a pair has no text or no score"
    if task.kind == "retrieval":
        search = task.search(task.splits[0])
        if not all(name in search.corpus for known in search.relevant.values() for name in known):
            return "a document is relevant that is not there"
    return None


FORMATS = [
    Format(
        "embedder",
        _make_embedders,
        {
            "two/modules.json": json_file,
            "two/1_Pooling/config.json": json_file,
            "two/2_Dense/config.json": json_file,
            "two/2_Dense/model.safetensors": safetensors,
            "two/config_sentence_transformers.json": json_file,
        },
        _merge_embedders,
        _embedders_are_right,
        share=2,
    ),
    Format(
        "text_tables",
        _make_tables,
        {
            "pairs/pairs.yaml": yaml_file,
            "pairs/val.tsv": text,
            "pairs/test.csv": text,
            "pairs/train.parquet": raw,
            "beir/corpus.jsonl": lines,
            "beir/queries.jsonl": lines,
            "beir/qrels/test.tsv": text,
            "beir/retrieval.yaml": yaml_file,
            "classes/classes.yaml": yaml_file,
            "classes/test.jsonl": lines,
            "better/preferences.yaml": yaml_file,
            "better/test.jsonl": lines,
        },
        _read_tables,
        _tables_are_right,
        share=2,
    ),
]
