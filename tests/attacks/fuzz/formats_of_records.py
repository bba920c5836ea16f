"""Formats that Smelt writes and reads again: manifest, journal, rows, statistics, mixtures, what was learned."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz.damage_files import json_file, lines, npz, safetensors
from fuzz.format import Format
from fuzz.sound_models import SHAPES, make_plain, pool

import smelt
from checkpoints import random_state, snapshot

__all__ = ["FORMATS"]


# ---- outputs


def _make_output(place: Path) -> None:
    make_plain(place)
    smelt.merge(pool(place), out=place / "out")
    shutil.copytree(place / "out", place / "as written")


def _verify(place: Path, file: str) -> Any:
    return smelt.verify(place / "out")


def _tells(place: Path, found: Any) -> str | None:
    same = snapshot(place / "out") == snapshot(place / "as written")
    if found.ok and not same:
        return "a folder that was changed verifies"
    return "a folder as it was written does not verify" if same and not found.ok else None


def _make_journal(place: Path) -> None:
    """What a run leaves that was interrupted just before its end: all tensors are there, so no line is untrue."""
    from unittest.mock import patch

    from smelt.engine.sink.output import OutputFolder, partial_folder

    make_plain(place)
    with patch.object(OutputFolder, "complete", side_effect=KeyboardInterrupt), suppress(smelt.OutputError):
        smelt.merge(pool(place), out=place / "out")
    partial_folder(place / "out").rename(place / "killed")
    smelt.merge(pool(place), out=place / "out")
    (place / "out").rename(place / "as written")


def _resume(place: Path, file: str) -> Any:
    from smelt.engine.sink.output import partial_folder

    shutil.rmtree(place / "out", ignore_errors=True)
    partial = partial_folder(place / "out")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(place / "killed", partial)
    return smelt.merge(pool(place), out=place / "out", resume=True)


def _same_bytes(place: Path, summary: Any) -> str | None:
    same = snapshot(place / "out") == snapshot(place / "as written")
    return None if same else f"a resumed run (it believed {summary.resumed} tensors) gives other bytes"


def _make_hashes(place: Path) -> None:
    """The cache of remembered hashes is the harness's own; here only its content."""
    make_plain(place)
    (place / "hashes.json").write_text(json.dumps({str(place / "nowhere"): "0" * 64, "a|1|2|3": "1" * 64}))
    smelt.merge(pool(place), out=place / "out")
    shutil.copytree(place / "out", place / "as written")


def _merge_with_hashes(place: Path, file: str) -> Any:
    from smelt.files.cache import cache_folder

    (cache_folder() / "hashes.json").write_bytes((place / "hashes.json").read_bytes())
    return smelt.merge(pool(place), out=place / "out", force=True)


def _same_output(place: Path, summary: Any) -> str | None:
    return None if snapshot(place / "out") == snapshot(place / "as written") else "the merge gives other bytes"


# ---- numbers measured on data


def _make_statistics(place: Path) -> None:
    from smelt.formats.statistics import ExampleRun, StatisticsNote, write_statistics

    make_plain(place)
    for seed, name in enumerate(("cars", "birds")):
        data = (ExampleRun(task="photos", split="train", examples=4, hash="photos"),)
        about = {"kind": "fisher", "estimator": "exact", "model": name, "model_hash": "m", "examples": 4, "data": data}
        tensors = {key: value.abs().double() + 0.1 for key, value in random_state(seed + 5, SHAPES).items()}
        write_statistics(place / f"fisher-{name}", StatisticsNote(**about), tensors)


def _merge_fisher(place: Path, file: str) -> Any:
    statistics = {name: str(place / f"fisher-{name}") for name in ("cars", "birds")}
    return smelt.merge(pool(place), method="fisher", statistics=statistics)


def _make_learned(place: Path) -> None:
    from smelt.learning.coefficients import Coefficients, save_coefficients
    from smelt.learning.neulig.portland import Portland
    from smelt.optimise.state import OptimiserState

    keys = tuple(SHAPES)
    found = Coefficients("tensor", {key: (key,) for key in keys}, {"cars": (0.3,) * 4, "birds": (0.5,) * 4})
    save_coefficients(place / "coefficients.json", found)
    Portland(["cars", "birds"], 4).save(place / "portland")
    state = OptimiserState(place / "state", {"steps": 3})
    state.save(2, {"w": torch.ones(3)}, [{"step": n, "loss": {"cars": 0.5}} for n in range(2)])
    state.close()


def _read_learned(place: Path, file: str) -> Any:
    from smelt.learning.coefficients import load_coefficients
    from smelt.learning.neulig.portland import Portland
    from smelt.optimise.state import OptimiserState

    found = load_coefficients(place / "coefficients.json", models=["cars", "birds"])
    portland = Portland.load(place / "portland")
    portland.coopvec(torch.ones(1, 2, 4))
    state = OptimiserState(place / "state", {"steps": 3})
    try:
        return found.to_json(), state.load()
    finally:
        state.close()


def _make_neulig(place: Path) -> None:
    from smelt.learning.neulig.note import NeuLigNote
    from smelt.recipe.schema import DataBudget, Pool

    note = NeuLigNote(
        pool=Pool(base="base", models={"cars": "cars", "birds": "birds"}),
        tasks={"cars": "cars", "birds": "birds"},
        setting={"epochs": 2},
        chosen=1,
        losses=[{"train": 0.5, "val": None, "epoch": 0}],
        map={"cars": {"cars": 0.9, "birds": 0.1}},
        data_budget=DataBudget(),
        experts={"base": "x", "cars": "y", "birds": "z"},
    )
    note.save(place)


def _read_neulig(place: Path, file: str) -> Any:
    from smelt.learning.neulig.note import NeuLigNote

    return NeuLigNote.load(place)


def _make_mix(place: Path) -> None:
    from pico_clip import random_clip, save_clip

    base = random_clip(0)
    save_clip(base, place / "base")
    for seed, name in enumerate(("cars", "birds"), 1):
        state = random_clip(seed).state_dict()
        tower = {key: value for key, value in state.items() if key.startswith("vision_model.")}
        other = random_clip(0)
        other.load_state_dict({**other.state_dict(), **tower})
        save_clip(other, place / name)
    models = {name: str(place / name) for name in ("cars", "birds")}
    smelt.mix(models, base=str(place / "base"), steps=0, out=place / "mixed")


def _load_mix(place: Path, file: str) -> Any:
    from smelt.mixing.classifier import load_mixed

    return load_mixed(place / "mixed")


# ---- rows and figures


def _make_rows(place: Path) -> None:
    from made_up_suite import row  # type: ignore[import-not-found]
    from smelt.evaluation.row import CostRow, append_rows

    rows: list[Any] = [row(entry, task, 1200) for entry in ("average", "ties") for task in ("photos", "digits")]
    cost = {"suite": "clip8", "entry": "ties", "variant": "published", "merge_seconds": 1.0}
    about = {"threads": 2, "device": "cpu", "code": "0.1.0", "command": "x", "when": "2026-01-05T08:30:00+00:00"}
    rows.append(CostRow(**cost, evaluate_seconds=1.0, peak_bytes=5, **about))
    append_rows(place / "rows.jsonl", rows)
    figures = {
        "cosine": {"names": ["photos", "digits"], "matrix": [[1.0, 0.1], [0.1, 1.0]]},
    }
    (place / "analyses").mkdir()
    for name, content in figures.items():
        (place / f"analyses/{name}.json").write_text(json.dumps(content))


def _report(place: Path, file: str) -> Any:
    return smelt.report(place, place / "page/report.html")


# ---- stores of answers


def _make_stores(place: Path) -> None:
    from smelt.jobs.job import Job
    from smelt.jobs.store import ResultStore
    from smelt.select.logit_store import LogitStore

    logits = LogitStore(place / "logits")
    logits.write(WORDS, LOGITS)
    logits.path(WORDS).rename(place / "logits/one.npz")
    jobs, job = ResultStore(place / "jobs"), Job("work:square", {"x": 3})
    jobs.write(job, {"answer": 9}, 1.5)
    jobs.path(job).rename(place / "jobs/one.json")


WORDS = {"model": "m", "set": "s", "limit": None}
LOGITS = np.arange(12, dtype=np.float32).reshape(3, 4)


def _read_stores(place: Path, file: str) -> Any:
    from smelt.jobs.job import Job
    from smelt.jobs.store import ResultStore
    from smelt.select.logit_store import LogitStore

    logits, jobs, job = LogitStore(place / "logits"), ResultStore(place / "jobs"), Job("work:square", {"x": 3})
    shutil.copyfile(place / "logits/one.npz", logits.path(WORDS))
    jobs.path(job).parent.mkdir(exist_ok=True)
    shutil.copyfile(place / "jobs/one.json", jobs.path(job))
    return logits.read(WORDS), jobs.read(job)


def _right_or_missing(place: Path, found: Any) -> str | None:
    logits, kept = found
    if logits is not None and not np.array_equal(logits, LOGITS):
        return "other logits than were written"
    return None if kept is None or kept.result == {"answer": 9} else "another result than was written"


FORMATS = [
    Format(
        "manifest",
        _make_output,
        {"out/manifest.json": json_file, "out/model.safetensors": safetensors, "out/config.json": json_file},
        _verify,
        _tells,
        share=2,
    ),
    Format("journal", _make_journal, {"killed/journal.jsonl": lines}, _resume, _same_bytes),
    Format("hashes", _make_hashes, {"hashes.json": json_file}, _merge_with_hashes, _same_output, share=0.5),
    Format(
        "statistics",
        _make_statistics,
        {"fisher-birds/statistics.json": json_file, "fisher-birds/statistics.safetensors": safetensors},
        _merge_fisher,
    ),
    Format(
        "learned",
        _make_learned,
        {
            "coefficients.json": json_file,
            "portland/portland.json": json_file,
            "portland/portland.safetensors": safetensors,
            "state/begun.json": json_file,
            "state/state.safetensors": safetensors,
            "state/trace.jsonl": lines,
        },
        _read_learned,
    ),
    Format("neulig", _make_neulig, {"neulig.json": json_file}, _read_neulig, share=0.5),
    Format(
        "mix",
        _make_mix,
        {
            "mixed/mix.json": json_file,
            "mixed/routers.safetensors": safetensors,
            "mixed/experts.safetensors": safetensors,
        },
        _load_mix,
        share=0.5,
    ),
    Format("rows", _make_rows, {"rows.jsonl": lines, "analyses/cosine.json": json_file}, _report),
    Format(
        "stores", _make_stores, {"logits/one.npz": npz, "jobs/one.json": json_file}, _read_stores, _right_or_missing
    ),
]
