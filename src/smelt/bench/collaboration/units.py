"""The units of a collaboration suite: pure pieces of work, plain data in and rows out.

Everything is asked about the same pictures of `test`, in one order; features of experts are computed once and kept.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.bench.collaboration.blend import coefficients, heard_gates
from smelt.bench.collaboration.fitted import Portlands
from smelt.bench.collaboration.score import digest, scored
from smelt.evaluate.find import find_task
from smelt.evaluate.row import DataBudget, Row
from smelt.learn.neulig import re_estimated
from smelt.learn.neulig.company import BASE, Company, company_of
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.evaluate.task import Task
    from smelt.learn.neulig import Features

__all__ = ["baseline", "fractions", "neulig", "references", "transfer"]

Rows = list[dict[str, Any]]
_BATCH = 128


class _Group:
    """The models of a group at work: what each sees in the test pictures, and what a merge of them answers."""

    def __init__(self, pool: Mapping[str, Any], experts: Sequence[str], ask: Mapping[str, Any]):
        import torch

        if ask["threads"]:
            torch.set_num_threads(int(ask["threads"]))
        self.company: Company = company_of(pool, ask["device"])
        self.names, self.limit = tuple(experts), ask["limit"]
        self.tasks: dict[str, Task] = {name: find_task(name) for name in experts}
        self.base_words = {"device": ask["device"], "model": "merged", "seed": ask["seed"]}
        self.hash = digest([self.company.everyone.hashes[name] for name in (BASE, *experts)])
        self.classify = self.company.everyone.network.classify

    def seen(self, task: str) -> Features:
        """The test pictures of a task as the base and the experts see them."""
        return self.company.features(self.tasks[task], "test", self.limit).of([BASE, *self.names])

    def batches(self, task: str) -> Iterator[tuple[slice, Any]]:
        stream, start = self.company.stream(self.tasks[task], "test", self.limit), 0
        for batch in stream.batches(_BATCH):
            yield slice(start, start + len(batch.labels)), batch
            start += len(batch.labels)

    def unlabelled(self, count: int | None) -> list[Any]:
        """Pictures of `val`, every batch with some of all tasks."""
        import torch

        streams = [self.company.stream(task, "val", count) for task in self.tasks.values()]
        each = max(1, _BATCH // len(streams))
        batches = zip(*(stream.batches(each) for stream in streams), strict=False)
        return [torch.cat([batch.inputs for batch in together]) for together in batches]

    def row(self, logits: Tensor, seen: Features, level: Any, about: Mapping[str, Any], **words: Any) -> Row:
        return scored(
            logits,
            seen.labels,
            task=self.tasks[seen.task],
            level=level,
            about={**self.base_words, **about},
            **{"model_hash": digest(self.hash, about.get("recipe_hash"), about["setting"], level), **words},
        )


def references(
    *, pool: Mapping[str, Any], experts: Sequence[str], ask: Mapping[str, Any], about: Mapping[str, Any]
) -> Rows:
    """The base on every task, and every expert on its own."""
    group = _Group(pool, experts, ask)
    rows = []
    for number, task in enumerate(group.names, 1):
        seen = group.seen(task)
        for place, entry, label, model in (
            (0, "pretrained", "Pre-trained", pool["base"]),
            (number, f"expert-{task}", f"Expert: {task}", pool["models"][task]),
        ):
            logits = group.classify(seen.z[:, place], seen.head)
            limit = ["--limit", str(ask["limit"])] if ask["limit"] else []
            command = shlex.join(["smelt", "eval", model, "--tasks", task, *limit])
            words = {"entry": entry, "label": label, "variant": "reference", "model": model, "command": command}
            words["setting"] = {}
            own = group.company.hashes[task if place else BASE]
            rows.append(group.row(logits, seen, None, {**about, **words}, model_hash=own))
    return _plain(rows)


def baseline(
    *,
    recipe: Mapping[str, Any],
    ensemble: bool,
    batch_norm: bool,
    pictures: int | None,
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
    pool: Mapping[str, Any],
) -> Rows:
    """A published way to merge: its merged model, and where it has coefficients of whole models, their ensemble.

    With `batch_norm`, statistics of BatchNorm are estimated again on so many unlabelled `pictures` of every task.
    """
    import torch

    import smelt
    from smelt.prepare import prepare

    wanted = Recipe.parse(recipe)
    group = _Group(pool, list(wanted.pool.models), ask)
    prepared = prepare(wanted, device=ask["device"], threads=ask["threads"])
    words = {**about, "recipe": wanted.dump(), "recipe_hash": wanted.hash, "data_budget": prepared.budget}
    words |= {"way": prepared.way, "setting": dict(wanted.merge[0].parameters)}
    if prepared.recipe is None:
        return _plain(_mixed(group, prepared.model, words, ensemble))
    state = smelt.merge(prepared.recipe, threads=ask["threads"])
    assert isinstance(state, dict)
    network = group.company.everyone.network
    weights = {key: state[key].float().to(network.device) for key in network.keys}
    if batch_norm:
        used = group.unlabelled(pictures)
        weights = re_estimated(network, weights, used)
        words["setting"]["batch_norm"] = "re-estimated"
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
    return _plain(rows)


def _more(budget: DataBudget, split: str, images: int) -> DataBudget:
    """The budget with unlabelled pictures of a split, which may be among those that it counts already."""
    splits = " and ".join(dict.fromkeys(filter(None, [budget.split, split])))
    return DataBudget(split=splits, images=budget.images + images, labels=budget.labels)


def _mixed(group: _Group, folder: str, words: Mapping[str, Any], ensemble: bool) -> list[Row]:
    """A mixture: every picture has gates of its own, in every block; their mean over the blocks blends features."""
    import torch

    from smelt.mix.classifier import load_mixed

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


def neulig(
    *,
    pool: Mapping[str, Any],
    experts: Sequence[str],
    fit: Mapping[str, Any],
    boosting: str,
    alignment: str,
    entries: Mapping[str, Mapping[str, Any]],
    folder: str,
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
) -> Rows:
    """Portland of one group, and the group at both levels; `entries` are the modes of merging, {entry: {mode, …}}."""
    group = _Group(pool, experts, ask)
    portlands = Portlands(group.company, group.names, group.tasks, fit)
    fitted = portlands.fit(boosting, alignment)
    rows = []
    for entry, one in entries.items():
        words = {**about, **portlands.words(boosting, alignment), "entry": entry, "label": one["label"]}
        words["setting"] = {**words["setting"], "mode": one["mode"], "epoch": fitted.chosen}
        words["recipe_hash"] = digest(words["setting"], fit, group.hash)
        # a series has its epoch as the x axis; here it is a fact about the fit
        words["setting"]["chosen"] = words["setting"].pop("epoch")
        rows += _both(group, fitted.portland, words, one["mode"], portlands)
    shown = next((one["label"] for one in entries.values() if one.get("figures")), None)
    if shown is not None:
        tested = {task: group.seen(task).of(group.names) for task in group.names}
        portlands.draw(fitted, tested, Path(folder) / "analyses", f"{about['part']}: {shown}")
    return _plain(rows)


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
) -> Rows:
    """Portland after each of several epochs with the experts that it learned from, and unchanged with others."""
    first, second = _Group(pool, experts, ask), _Group(other, experts, ask)
    portlands = Portlands(first.company, first.names, first.tasks, fit)
    fitted = portlands.fit(boosting, alignment)
    rows = []
    for number in epochs:
        portland = fitted.history[number].portland
        for group, entry, label in (
            (first, f"neulig-{boosting}-original", "Original experts"),
            (second, f"neulig-{boosting}-transferred", "Other experts"),
        ):
            words = {
                **about,
                **portlands.words(boosting, alignment),
                "entry": entry,
                "label": label,
                "variant": "curve",
            }
            words["setting"] = {**words["setting"], "epoch": number}
            words["recipe_hash"] = digest(words["setting"], fit, group.hash)
            rows += _both(group, portland, words, "sample", portlands)
    return _plain(rows)


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
) -> Rows:
    """Portland fitted on shares of the examples."""
    group = _Group(pool, experts, ask)
    portlands = Portlands(group.company, group.names, group.tasks, fit)
    rows = []
    for share in shares:
        fitted = portlands.fit(boosting, alignment, share)
        words = {**about, **portlands.words(boosting, alignment, share), "variant": "curve"}
        words["setting"] = {**words["setting"], "fraction": share}
        words["recipe_hash"] = digest(words["setting"], fit, group.hash)
        rows += _both(group, fitted.portland, words, "sample", portlands)
    return _plain(rows)


def _both(group: _Group, portland: Any, words: Mapping[str, Any], mode: str, portlands: Portlands) -> list[Row]:
    """Merged and ensembled on every task, with one CoopVec for both."""
    import torch

    from smelt.learn.neulig import ensembled_logits, merged_logits

    experts, rows = group.company.experts(group.names), []
    table = portlands.map(portland) if mode == "map" else None
    for task in group.names:
        seen = group.seen(task).of(group.names)
        with torch.no_grad():
            beta = portland.coopvec(seen.z)
            if table is not None:
                beta = table.row(task).to(beta).expand(len(beta), -1)
            merged = [
                merged_logits(experts, beta[place], batch.inputs, batch.head, mode=mode)  # type: ignore[arg-type]
                for place, batch in group.batches(task)
            ]
            ensembled = ensembled_logits(group.classify, beta, seen.z, seen.head)
        rows.append(group.row(torch.cat(merged), seen, "merged", {**words, "way": "mix"}))
        rows.append(group.row(ensembled, seen, "ensembled", {**words, "way": "ensemble"}))
    return rows


def _plain(rows: Sequence[Row]) -> Rows:
    return [row.model_dump(mode="json") for row in rows]
