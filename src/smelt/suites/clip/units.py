"""The units of a picture suite: each makes one predictor, or the models along one curve, and asks it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.analyse.interpolation import interpolation_path
from smelt.analyse.scales import scaled_merges
from smelt.engine.pool import opened
from smelt.engine.scales import at_scale
from smelt.ensembles.ensemble import ensemble
from smelt.evaluation.row import CostRow, Row
from smelt.formats.source import MemorySource
from smelt.measurement.measure import measure
from smelt.prepare.prepare import prepare
from smelt.recipe.schema import Recipe
from smelt.suites.clip.ask import Ask
from smelt.suites.merge_process import merge_in_process
from smelt.suites.units import UnitResult, cost_row, recipe_words, unit_result

__all__ = ["curve", "ensembled", "line", "made", "measured", "reference"]


def reference(
    *, ref: str, text_from: str | None = None, ask: Mapping[str, Any], about: Mapping[str, Any]
) -> UnitResult:
    """A model as it is, with the text tower of another where it has none."""
    rows, _ = Ask(**ask).put_to(ref, text_from, **about)
    return unit_result(rows)


def made(
    *, recipes: Mapping[str, Any], folder: str, keep: bool, ask: Mapping[str, Any], about: Mapping[str, Any]
) -> UnitResult:
    """A model made by a recipe: data looked at where it needs any, merged or mixed, asked, thrown away.

    `recipes` holds {file name: {recipe, path of its file, cells, setting}}: one, or one for each task where the task
    must be known.
    """
    rows: list[Row | CostRow] = []
    heat: dict[str, Any] = {}
    for file, one in recipes.items():
        questions = Ask(**{**ask, "cells": one["cells"]})
        rows += _made(file, one, Path(folder), keep, questions, dict(about), heat)
    return unit_result(rows, heat)


def measured(**words: Any) -> str:
    """A statistic of one model, kept under its content: models can be measured side by side."""
    return str(measure(**words))


def ensembled(
    *, models: Mapping[str, str], text_from: str | None, kind: Any, ask: Mapping[str, Any], about: Mapping[str, Any]
) -> UnitResult:
    """All models asked together."""
    questions = Ask(**ask)
    where: dict[str, Any] = {
        "device": questions.device,
        "dtype": questions.dtype,
        "allow_pickle": questions.allow_pickle,
    }
    together = ensemble(dict(models), kind=kind, text_from=text_from, **where)
    rows, seconds = questions.put_to(together, **{**about, "way": "ensemble"})
    cost = cost_row(rows[0], device=questions.device, threads=questions.threads, evaluate_seconds=seconds)
    return unit_result([*rows, cost])


def curve(
    *, recipe: Mapping[str, Any], scales: Mapping[float, Any], ask: Mapping[str, Any], about: Mapping[str, Any]
) -> UnitResult:
    """One merge at several scales, {scale: cells}, on pictures that no result is reported on."""
    wanted = Recipe.parse(recipe)
    cells = {float(scale): tasks for scale, tasks in scales.items()}
    rows: list[Row] = []
    with opened(wanted.pool, allow_pickle=wanted.allow_pickle) as pool:
        for scale, state in scaled_merges(wanted, list(cells), pool=pool):
            source = MemorySource("merged", state)
            source.folder = pool.reference.folder
            at = at_scale(wanted, scale)
            found, _ = Ask(**{**ask, "cells": cells[scale]}).put_to(source, **about, **recipe_words(at))
            rows += found
    return unit_result(rows)


def line(
    *,
    ends: Sequence[str],
    names: Sequence[str],
    points: int,
    keys: Sequence[str],
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
) -> UnitResult:
    """The models on the straight line between two."""
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
    return unit_result([row.model_copy(update=dict(about)) for row in found.rows])


def _made(
    file: str, one: Mapping[str, Any], folder: Path, keep: bool, ask: Ask, about: dict[str, Any], heat: dict[str, Any]
) -> list[Row | CostRow]:
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
        merged = merge_in_process(path, out, threads=ask.threads)
        seconds, peak, model = merged.seconds, merged.peak_bytes, str(out)
    about = {
        **recipe_words(recipe),
        "setting": one["setting"],
        "way": prepared.way,
        "data_budget": prepared.budget,
        **about,
    }
    if prepared.heat is not None:
        heat[f"heat-{file}"] = {**prepared.heat, "title": f"{prepared.heat['title']}: {about['label']}"}
    try:
        rows, spent = ask.put_to(model, **about)
    finally:
        if not keep:
            shutil.rmtree(out, ignore_errors=True)
            (folder / f"{file}.prepared.yaml").unlink(missing_ok=True)
    rows = [row.model_copy(update={"model": "mixed" if prepared.way == "mix" else "merged"}) for row in rows]
    cost = cost_row(
        rows[0],
        device=ask.device,
        threads=ask.threads,
        merge_seconds=seconds,
        evaluate_seconds=spent,
        peak_bytes=peak or prepared.peak_bytes,
        prepare_seconds=prepared.seconds,
        prepare_device=prepared.device,
    )
    return [*rows, cost]
