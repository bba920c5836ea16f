"""The units of a suite: pure pieces of work, plain data in and rows out, wherever they are computed.

Each function is what one job runs. It makes one predictor (or the models along one curve), asks it, and gives its
rows back as plain data; what it keeps between two calls are pictures, which change no number.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.evaluation.row import CostRow, Row, code_version, now
from smelt.recipe.schema import Recipe
from smelt.suites.clip.questions import Ask
from smelt.suites.merging import merge_apart

__all__ = ["curve", "ensembled", "line", "made", "measured", "reference", "setting_of"]

Rows = list[dict[str, Any]]


def reference(*, ref: str, ask: Mapping[str, Any], about: Mapping[str, Any]) -> Rows:
    """A model as it is."""
    rows, _ = Ask(**ask).put_to(ref, **about)
    return _plain(rows)


def made(
    *, recipes: Mapping[str, Any], folder: str, keep: bool, ask: Mapping[str, Any], about: Mapping[str, Any]
) -> Rows:
    """A model made by a recipe: data looked at where it needs any, merged or mixed, asked, thrown away.

    `recipes` holds {file name: {recipe, path of its file, cells, setting}}: one, or one for each task where the task
    must be known.
    """
    rows: list[Row | CostRow] = []
    for file, one in recipes.items():
        questions = Ask(**{**ask, "cells": one["cells"]})
        rows += _made(file, one, Path(folder), keep, questions, dict(about))
    return _plain(rows)


def measured(**words: Any) -> str:
    """A statistic of one model, kept under its content: models can be measured side by side."""
    from smelt.measurement.measure import measure

    return str(measure(**words))


def ensembled(
    *, models: Mapping[str, str], text_from: str | None, kind: Any, ask: Mapping[str, Any], about: Mapping[str, Any]
) -> Rows:
    """All models asked together."""
    from smelt.ensembles.ensemble import ensemble

    questions = Ask(**ask)
    where: dict[str, Any] = {
        "device": questions.device,
        "dtype": questions.dtype,
        "allow_pickle": questions.allow_pickle,
    }
    together = ensemble(dict(models), kind=kind, text_from=text_from, **where)
    rows, seconds = questions.put_to(together, **{**about, "way": "ensemble"})
    cost = _cost(rows[0], questions, merge_seconds=0.0, evaluate_seconds=seconds, peak_bytes=0)
    return _plain([*rows, cost])


def curve(
    *, recipe: Mapping[str, Any], scales: Mapping[float, Any], ask: Mapping[str, Any], about: Mapping[str, Any]
) -> Rows:
    """One merge at several scales, {scale: cells}, on pictures that no result is reported on."""
    from smelt.analyse.scales import scaled_merges
    from smelt.engine.pool import opened
    from smelt.engine.scales import at_scale
    from smelt.formats.source import MemorySource

    wanted = Recipe.parse(recipe)
    cells = {float(scale): tasks for scale, tasks in scales.items()}
    rows: list[Row] = []
    with opened(wanted.pool, allow_pickle=wanted.allow_pickle) as pool:
        for scale, state in scaled_merges(wanted, list(cells), pool=pool):
            source = MemorySource("merged", state)
            source.folder = pool.reference.folder
            at = at_scale(wanted, scale)
            found, _ = Ask(**{**ask, "cells": cells[scale]}).put_to(source, **about, **_recipe_words(at))
            rows += found
    return _plain(rows)


def line(
    *,
    ends: Sequence[str],
    names: Sequence[str],
    points: int,
    keys: Sequence[str],
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
) -> Rows:
    """The models on the straight line between two."""
    from smelt.analyse.interpolation import interpolation_path

    questions = Ask(**ask)
    start, end = ends
    found = interpolation_path(
        start,
        end,
        points,
        tasks=questions.tasks,
        limit=questions.limit,
        device=questions.device,
        dtype=questions.dtype,
        threads=questions.threads,
        keys=list(keys) or None,
        names=(names[0], names[1]),
        allow_pickle=questions.allow_pickle,
    )
    return _plain([row.model_copy(update=dict(about)) for row in found.rows])


def _made(
    file: str, one: Mapping[str, Any], folder: Path, keep: bool, ask: Ask, about: dict[str, Any]
) -> list[Row | CostRow]:
    from smelt.prepare.prepare import prepare

    recipe = Recipe.parse(one["recipe"])
    out = folder / file
    prepared = prepare(recipe, device=ask.device, threads=ask.threads)
    seconds, peak, model = 0.0, 0, prepared.model
    if prepared.recipe is not None:
        path = folder.parent / "recipes" / f"{file}.yaml"
        if prepared.recipe != recipe:
            path = folder / f"{file}.prepared.yaml"
            folder.mkdir(parents=True, exist_ok=True)
            prepared.recipe.save(path)
        merged = merge_apart(path, out, threads=ask.threads)
        seconds, peak, model = merged.seconds, merged.peak_bytes, str(out)
    about = {
        **_recipe_words(recipe),
        "setting": one["setting"],
        "way": prepared.way,
        "data_budget": prepared.budget,
        **about,
    }
    if prepared.heat is not None:
        _write_heat(folder.parent / "analyses" / f"heat-{file}.json", prepared.heat, str(about["label"]))
    try:
        rows, spent = ask.put_to(model, **about)
    finally:
        if not keep:
            shutil.rmtree(out, ignore_errors=True)
            (folder / f"{file}.prepared.yaml").unlink(missing_ok=True)
    rows = [row.model_copy(update={"model": "mixed" if prepared.way == "mix" else "merged"}) for row in rows]
    cost = _cost(
        rows[0],
        ask,
        merge_seconds=seconds,
        evaluate_seconds=spent,
        peak_bytes=peak or prepared.peak_bytes,
        prepare_seconds=prepared.seconds,
        prepare_device=prepared.device,
    )
    return [*rows, cost]


def _write_heat(path: Path, heat: Mapping[str, Any], label: str) -> None:
    """What was learned, for the report to draw."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {**heat, "title": f"{heat['title']}: {label}"}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _recipe_words(recipe: Recipe) -> dict[str, Any]:
    words = {"recipe": recipe.dump(), "recipe_hash": recipe.hash, "seed": recipe.seed}
    return {**words, "setting": setting_of(recipe)}


def setting_of(recipe: Recipe) -> dict[str, Any]:
    """The parameters that the recipe writes down: of one stage as they are, of several under the stage's name."""
    if len(recipe.merge) == 1:
        return dict(recipe.merge[0].parameters)
    return {call.name: dict(call.parameters) for call in recipe.merge}


def _cost(row: Row, ask: Ask, **numbers: Any) -> CostRow:
    import torch

    same = {word: getattr(row, word) for word in ("suite", "entry", "variant", "setting", "part", "command")}
    threads = ask.threads or torch.get_num_threads()
    return CostRow(**same, **numbers, threads=threads, device=ask.device, code=code_version(), when=now())


def _plain(rows: Sequence[Row | CostRow]) -> Rows:
    return [row.model_dump(mode="json") for row in rows]
