"""The units of a collaboration suite: pure pieces of work, plain data in and rows out.

Everything is asked about the same pictures of `test`, in one order; features of experts are computed once and kept.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from smelt.evaluation.row import Row
from smelt.learning.neulig.batch_norm import re_estimated
from smelt.learning.neulig.coopmap import CoopVecMap, coopvec_map, histograms
from smelt.learning.neulig.fit import FitSettings, Fitted
from smelt.learning.neulig.loaded_experts import BASE
from smelt.learning.neulig.portland_fitter import PortlandFitter
from smelt.mixing.classifier import load_mixed
from smelt.prepare.merge import merge
from smelt.prepare.prepare import prepare
from smelt.recipe.schema import DataBudget, Recipe
from smelt.suites.collaboration.blend import coefficients, heard_gates
from smelt.suites.collaboration.group import WorkingGroup
from smelt.suites.units import UnitResult, digest, unit_result, with_threads

__all__ = ["baseline", "fractions", "neulig", "references", "transfer"]


@with_threads
def references(
    *, pool: Mapping[str, Any], experts: Sequence[str], ask: Mapping[str, Any], about: Mapping[str, Any]
) -> UnitResult:
    """The base on every task, and every expert on its own."""
    group = WorkingGroup(pool, experts, ask)
    rows = []
    for number, task in enumerate(group.names, 1):
        seen = group.seen(task)
        for place, entry, label, model in (
            (0, "pretrained", "Pre-trained", pool["base"]),
            (number, f"expert-{task}", f"Expert: {task}", pool["models"][task]),
        ):
            logits = group.classify(seen.z[:, place], seen.head)
            limit = ["--limit", str(ask["limit"])] if ask["limit"] else []
            rest = ["--text-from", pool["base"]] if place and ask.get("towers") else []
            rest += ["--allow-pickle"] if ask.get("allow_pickle") else []
            command = shlex.join(["smelt", "eval", model, "--tasks", task, *limit, *rest])
            words = {"entry": entry, "label": label, "variant": "reference", "model": model, "command": command}
            words["setting"] = {}
            own = group.company.hashes[task if place else BASE]
            rows.append(group.row(logits, seen, None, {**about, **words}, model_hash=own))
    return unit_result(rows)


@with_threads
def baseline(
    *,
    recipe: Mapping[str, Any],
    ensemble: bool,
    batch_norm: bool,
    pictures: int | None,
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
    pool: Mapping[str, Any],
) -> UnitResult:
    """A published way to merge: its merged model, and where it has coefficients of whole models, their ensemble.

    With `batch_norm`, statistics of BatchNorm are estimated again on so many unlabelled `pictures` of every task.
    """
    wanted = Recipe.parse(recipe)
    group = WorkingGroup(pool, list(wanted.pool.models), ask)
    prepared = prepare(wanted, device=ask["device"], threads=ask["threads"])
    words = {**about, "recipe": wanted.dump(), "recipe_hash": wanted.hash, "data_budget": prepared.budget}
    words |= {"way": prepared.way, "setting": dict(wanted.merge[0].parameters)}
    if prepared.steps is not None:
        words["setting"]["steps_taken"] = prepared.steps
    if prepared.recipe is None:
        return unit_result(_mixed(group, prepared.model, words, ensemble))
    state = merge(prepared.recipe, threads=ask["threads"])
    assert isinstance(state, dict)
    network = group.company.everyone.network
    weights = {key: state[key].float().to(network.device) for key in network.keys}
    if batch_norm:
        used = group.unlabelled(pictures)
        weights = re_estimated(network, weights, used)
        words["setting"]["batch_norm"] = f"re-estimated on {sum(map(len, used))}"
        words["data_budget"] = _more(prepared.budget, "val", sum(map(len, used)))
    blend = torch.tensor(coefficients(prepared.recipe), device=network.device) if ensemble else None
    rows = []
    for task in group.names:
        seen = group.seen(task)
        with torch.no_grad():
            parts = [network.encode(weights, batch.inputs) for _, batch in group.batches(task)]
        rows.append(group.row(group.classify(torch.cat(parts), seen.head), seen, "merged", words))
        if blend is not None:
            blended = torch.einsum("n,mnd->md", blend, seen.z)
            rows.append(group.row(group.classify(blended, seen.head), seen, "ensembled", {**words, "way": "ensemble"}))
    return unit_result(rows)


def _more(budget: DataBudget, split: str, images: int) -> DataBudget:
    """The budget with unlabelled pictures of a split, which may be among those that it counts already."""
    splits = " and ".join(dict.fromkeys(filter(None, [budget.split, split])))
    return DataBudget(split=splits, images=budget.images + images, labels=budget.labels)


def _mixed(group: WorkingGroup, folder: str, words: Mapping[str, Any], ensemble: bool) -> list[Row]:
    """A mixture: every picture has gates of its own, in every block; their mean over the blocks blends features."""
    mixed = load_mixed(folder, device=group.company.classifier.device)
    network = mixed.inner.network()  # type: ignore[attr-defined]
    rows = []
    for task in group.names:
        seen, logits, gates = group.seen(task), [], []
        with torch.no_grad():
            for _, batch in group.batches(task):
                with heard_gates(mixed.routers) as heard:
                    logits.append(network.logits({}, batch.inputs, batch.head))
                gates.append(torch.stack(heard).mean(dim=0))
        rows.append(group.row(torch.cat(logits), seen, "merged", words))
        if ensemble:
            own = torch.cat(gates).to(seen.z.device)[:, [mixed.experts.index(name) for name in group.names]]
            blend = torch.cat([1 - own.sum(dim=1, keepdim=True), own], dim=1)
            blended = torch.einsum("mn,mnd->md", blend, seen.z)
            rows.append(group.row(group.classify(blended, seen.head), seen, "ensembled", {**words, "way": "ensemble"}))
    return rows


@with_threads
def neulig(
    *,
    pool: Mapping[str, Any],
    experts: Sequence[str],
    fit: Mapping[str, Any],
    boosting: str,
    alignment: str,
    entries: Mapping[str, Mapping[str, Any]],
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
) -> UnitResult:
    """Portland of one group, and the group at both levels; `entries` are the modes of merging, {entry: {mode, …}}."""
    group = WorkingGroup(pool, experts, ask)
    portlands, setting = group.portlands(fit), _setting(fit, boosting, alignment)
    fitted = portlands.fit(setting)
    table = portlands.map(fitted, setting)
    rows = []
    for entry, one in entries.items():
        words = {**about, "entry": entry, "label": one["label"]}
        words |= _told(setting, portlands, fit, group.hash, mode=one["mode"], chosen_epoch=fitted.chosen)
        rows += group.both(fitted.portland, words, one["mode"], table, fit["validation"])
    shown = next((one["label"] for one in entries.values() if one.get("figures")), None)
    if shown is None:
        return unit_result(rows)
    tested = coopvec_map(fitted.portland, {task: group.seen(task).of(group.names) for task in group.names})
    title = f"{about['part']}: {shown}"
    return unit_result(rows, {**_figures(fitted, table, tested, title), **_distributions(group, fitted, title)})


@with_threads
def transfer(
    *,
    pool: Mapping[str, Any],
    other: Mapping[str, Any],
    experts: Sequence[str],
    fit: Mapping[str, Any],
    boosting: str,
    alignment: str,
    epochs: Sequence[int],
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
) -> UnitResult:
    """Portland after each of several epochs with the experts that it learned from, and unchanged with others."""
    first, second = WorkingGroup(pool, experts, ask), WorkingGroup(other, experts, ask)
    portlands, setting = first.portlands(fit), _setting(fit, boosting, alignment)
    fitted = portlands.fit(setting)
    rows = []
    for number in epochs:
        portland = fitted.history[number].portland
        for group, entry, label in (
            (first, f"neulig-{boosting}-original", "Original experts"),
            (second, f"neulig-{boosting}-transferred", "Other experts"),
        ):
            words = {**about, "entry": entry, "label": label, "variant": "curve"}
            words |= _told(setting, portlands, fit, first.hash, group.hash, epoch=number)
            rows += group.both(portland.for_experts(group.names), words, "sample")
    return unit_result(rows)


@with_threads
def fractions(
    *,
    pool: Mapping[str, Any],
    experts: Sequence[str],
    fit: Mapping[str, Any],
    boosting: str,
    alignment: str,
    shares: Sequence[float],
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
) -> UnitResult:
    """Portland fitted on shares of the examples."""
    group = WorkingGroup(pool, experts, ask)
    portlands = group.portlands(fit)
    rows = []
    for share in shares:
        setting = _setting(fit, boosting, alignment, share)
        fitted = portlands.fit(setting)
        words = {**about, "variant": "curve", **_told(setting, portlands, fit, group.hash, fraction=share)}
        rows += group.both(fitted.portland, words, "sample")
    return unit_result(rows)


def _setting(fit: Mapping[str, Any], boosting: Any, alignment: Any, fraction: float = 1.0) -> FitSettings:
    words = {word: fit[word] for word in ("epochs", "rate", "batch", "alignment_weight", "seed")}
    return FitSettings(boosting=boosting, alignment=alignment, fraction=fraction, **words)


def _told(setting: FitSettings, portlands: PortlandFitter, *hashed: Any, **own: Any) -> dict[str, Any]:
    """What rows say about a Portland: setting, seed, data used, and a hash over all that it follows from."""
    words = {"boosting": setting.boosting, "alignment": setting.alignment, **own}
    budget = portlands.budget(setting)
    return {"setting": words, "seed": setting.seed, "data_budget": budget, "recipe_hash": digest(words, *hashed)}


def _figures(fitted: Fitted, learned: CoopVecMap, tested: CoopVecMap, title: str) -> dict[str, dict[str, Any]]:
    """By the name of their files: heat maps of the training and of the test pictures, and lines over the epochs."""
    slug = _slug(title)
    lines = {
        name: [float(epoch.map[place, place]) for epoch in fitted.history] for place, name in enumerate(learned.experts)
    }
    return {
        f"heat-{slug}": _heat(learned, f"CoopVec Map: {title}", "training"),
        f"heat-tested-{slug}": _heat(tested, f"CoopVecs of test pictures: {title}", "test"),
        f"lines-{slug}": {
            "title": f"The diagonal of the CoopVec Map: {title}",
            "x_label": "epoch",
            "y_label": "coefficient of the own expert",
            "x": [epoch.number for epoch in fitted.history],
            "lines": lines,
            "note": f"epoch 0 is before training; epoch {fitted.chosen} was chosen on validation pictures",
        },
    }


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _distributions(group: WorkingGroup, fitted: Fitted, title: str) -> dict[str, dict[str, Any]]:
    """How the CoopVecs of single test pictures lie, after the first epoch and at the chosen one."""
    found = {}
    for number in dict.fromkeys((1, fitted.chosen)):
        portland = fitted.history[number].portland
        with torch.no_grad():
            betas = {task: portland.coopvec(group.seen(task).of(group.names).z) for task in group.names}
        found[f"coopvecs-{number:04}-{_slug(title)}"] = {
            "title": title,
            "epoch": number,
            "tasks": list(betas),
            "experts": list(group.names),
            "counts": [histograms(beta) for beta in betas.values()],
            "matrix": [beta.double().mean(dim=0).tolist() for beta in betas.values()],
        }
    return found


def _heat(table: CoopVecMap, title: str, which: str) -> dict[str, Any]:
    return {
        "title": title,
        "rows": list(table.tasks),
        "columns": list(table.experts),
        "matrix": table.matrix.tolist(),
        "note": f"the mean coefficient that a data set's {which} pictures give to each expert",
        "signed": False,
    }
