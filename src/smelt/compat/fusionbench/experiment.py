"""An experiment: a composed config carried out. Models and tasks in; a report out, and a merged model if it is wanted.

What `smelt run` calls. It knows the rooms that it goes through (merge, analyse, evaluate) and nothing of their insides.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.compat.fusionbench.compose import ComposedConfig, compose_jobs
from smelt.compat.fusionbench.methods import Cosine
from smelt.compat.fusionbench.names import RefusedName
from smelt.compat.fusionbench.reader import EvaluationPlan, Experiment, read_experiment
from smelt.compat.fusionbench.report import fusionbench_report
from smelt.display.blocks import Facts, Table
from smelt.display.shown import Shown, ShownList
from smelt.errors import OutputError, RecipeError, SmeltError
from smelt.evaluation.row import code_version, now
from smelt.files.remote_code import FLAG, is_trusted, takes_trust
from smelt.files.writing import write_json
from smelt.recipe.schema import DataBudget
from smelt.tasks.pictures.data_cache import DataCache

if TYPE_CHECKING:
    import torch

    from smelt.analyse.cosine import CosineSimilarity
    from smelt.ensembles.scores import Ensemble, MaxModel
    from smelt.prepare.prepare import PreparedRecipe

    Model: TypeAlias = str | dict[str, torch.Tensor] | Ensemble | MaxModel

__all__ = ["Outcome", "Outcomes", "PreparedRun", "attempt", "prepare", "run"]


@dataclass(frozen=True)
class PreparedRun:
    """An experiment that is ready to run, and the job it comes from."""

    job: ComposedConfig
    experiment: Experiment


@dataclass(frozen=True)
class Outcome(Shown):
    """What became of one experiment: its report, or why there is none."""

    swept: tuple[str, ...]
    saved: Path | None
    report: dict[str, Any] | None = None
    error: SmeltError | None = None

    @property
    def scores(self) -> dict[str, float]:
        """The accuracy on each task, and their mean."""
        return {task: value["accuracy"] for task, value in (self.report or {}).items() if "accuracy" in value}

    @property
    def result(self) -> str:
        """Where the report is, or why there is none."""
        return f"failed: {shorten(str(self.error), 120)}" if self.error else str(self.saved or "done")

    def shown(self) -> list[Facts]:
        job = [("job", " ".join(self.swept))] if self.swept else []
        scores = ((task, f"{100 * score:.1f} %") for task, score in self.scores.items())
        return [Facts([*job, *scores, ("result", self.result)])]


class Outcomes(ShownList[Outcome]):
    """What became of the experiments of a sweep."""

    def shown(self) -> list[Table]:
        tasks = list(dict.fromkeys(task for one in self for task in one.scores))

        def line(one: Outcome) -> list[str]:
            numbers = (f"{100 * one.scores[task]:.1f}" if task in one.scores else "" for task in tasks)
            return [" ".join(one.swept), *numbers, one.result]

        rows = list(map(line, self))
        return [Table(["job", *tasks, "result"], rows, left=(0, len(tasks) + 1))]


@takes_trust
def run(
    *overrides: str,
    multirun: bool = False,
    config_dir: str | Path | None = None,
    config_name: str | None = None,
    config_path: str | Path | None = None,
    quiet: bool = True,
    trust_remote_code: bool = False,
) -> Outcomes:
    """Compose a config from `overrides` in FusionBench's words and carry it out.

    `run("method=ties_merging", "modelpool=clip-tiny_TA8", "taskpool=clip-tiny_TA8")`. With `multirun` every
    combination of listed values is one experiment, and one that fails does not stop the others. `config_dir` is a
    folder of your own configs: `modelpool/mine.yaml` is then `modelpool=mine`. `config_name` is a whole config to start
    from: one of FusionBench's, or a file in the folder `config_path`. With `dry_run=true` nothing is loaded and the
    report is empty.
    """
    jobs = prepare(
        overrides, multirun=multirun, config_dir=config_dir, config_name=config_name, config_path=config_path
    )
    data = DataCache()
    outcomes = Outcomes(attempt(job, quiet=quiet, data=data) for job in jobs)
    if not multirun and outcomes[0].error is not None:
        raise outcomes[0].error
    return outcomes


def prepare(overrides: Sequence[str], *, multirun: bool = False, **where: Any) -> list[PreparedRun]:
    """Compose and check every experiment; all faults of all of them at once, before any work.

    `where` says where configs are: the words `config_dir`, `config_name` and `config_path` of `run`.
    """
    prepared, faults = [], []
    for job in compose_jobs(overrides, sweep=multirun, **where):
        try:
            prepared.append(PreparedRun(job, read_experiment(job.config)))
        except SmeltError as error:
            if not job.swept:
                raise
            faults.append((f"{' '.join(job.swept)}: {error}", error.kind if isinstance(error, RefusedName) else ""))
    if faults:
        said = f"{len(faults)} jobs cannot run:" + "".join(f"\n  - {fault}" for fault, _ in faults)
        kinds = {kind for _, kind in faults}
        raise RefusedName(said, kinds.pop()) if len(kinds) == 1 and kinds != {""} else RecipeError(said)
    return _apart(prepared)


def attempt(one: PreparedRun, *, quiet: bool = True, data: DataCache | None = None) -> Outcome:
    """Carry out an experiment unless it is a dry run; a failure is part of the outcome. `data` keeps pictures."""
    if one.experiment.dry_run:
        return Outcome(one.job.swept, None, {})
    try:
        report = _carry_out(one.job, one.experiment, quiet, data)
    except SmeltError as error:
        return Outcome(one.job.swept, None, error=error)
    return Outcome(one.job.swept, one.experiment.report, report)


def _carry_out(job: ComposedConfig, experiment: Experiment, quiet: bool, data: DataCache | None) -> dict[str, Any]:
    """Merge, analyse and evaluate; the report comes back and is saved where the config says."""
    for place in (experiment.report, experiment.save, *_files(experiment.cosine)):
        if place is not None:
            _make_room(place)
    data = data or DataCache()
    if experiment.evaluation is not None:
        _check_evaluation(experiment, experiment.evaluation, data)
    command = shlex.join(["smelt", "run", *job.overrides, *([FLAG] if is_trusted() else [])])
    report: dict[str, Any] = {}
    if experiment.cosine is not None:
        report[experiment.method] = _cosine(experiment, experiment.cosine, quiet)
    if experiment.evaluation is not None:
        report |= _evaluated(experiment, experiment.evaluation, _merged(experiment, quiet), command, quiet, data)
    elif experiment.cosine is None:
        report["model_info"] = _counted(experiment, _merged(experiment, quiet)[0])
    about = {"code": code_version(), "command": command, "when": now(), "method": experiment.method}
    report["provenance"] = {**report.pop("provenance", {}), **about, "config": job.config}
    if experiment.report is not None:
        _save(experiment.report, report)
    return report


def _apart(jobs: Sequence[PreparedRun]) -> list[PreparedRun]:
    """Jobs that would write to one place get a number each: out.json -> out-1.json, out-2.json, ..."""
    places = Counter(place for job in jobs for place in _places(job.experiment))
    done = []
    for number, job in enumerate(jobs, 1):
        one = job.experiment
        report, out, save = (_numbered(place, number, places) for place in (one.report, one.out, one.save))
        csv, picture = (_numbered(place, number, places) for place in _files(one.cosine))
        cosine = replace(one.cosine, csv=csv, picture=picture) if one.cosine else None
        done.append(replace(job, experiment=replace(one, cosine=cosine, report=report, out=out, save=save)))
    return done


def _numbered(place: Path | None, number: int, places: Counter[Path]) -> Path | None:
    if place is None or places[place] == 1:
        return place
    return place.with_name(f"{place.stem}-{number}{place.suffix}")


def _places(experiment: Experiment) -> list[Path]:
    places = (experiment.report, experiment.out, experiment.save, *_files(experiment.cosine))
    return [place for place in places if place is not None]


def _files(cosine: Cosine | None) -> tuple[Path | None, Path | None]:
    return (cosine.csv, cosine.picture) if cosine else (None, None)


def _cosine(experiment: Experiment, wanted: Cosine, quiet: bool) -> dict[str, Any]:
    from smelt.analyse.cosine import cosine_similarity
    from smelt.engine.pool import opened

    with opened(experiment.pool, allow_pickle=experiment.allow_pickle) as pool:
        found = cosine_similarity(pool, list(experiment.include) or None, quiet=quiet)
    if wanted.csv is not None:
        found.to_csv(wanted.csv)
    if wanted.picture is not None:
        _draw(found, wanted.picture)
    return found.to_json()


def _draw(found: CosineSimilarity, path: Path) -> None:
    """The matrix as a heat map: a picture of its own."""
    from smelt.files.writing import write_file
    from smelt.reporting.draw.heat import heat_map
    from smelt.reporting.figures.heat import Matrix, cosine_map

    matrix = Matrix(found.names, found.names, tuple(tuple(row) for row in found.to_json()["matrix"]))
    write_file(path, f"{heat_map(cosine_map(matrix), 'Cosine similarity of task vectors')}\n")


def _merged(experiment: Experiment, quiet: bool) -> tuple[Model, DataBudget]:
    """The model to evaluate (the reference of a folder or of the base, or a state dict), and the data it used."""
    from smelt.engine.merge import Summary
    from smelt.prepare.merge import merge

    if experiment.ensemble is not None:
        from smelt.ensembles.ensemble import ensemble

        assert experiment.evaluation is not None
        words: dict[str, Any] = {"text_from": experiment.evaluation.text_from, "device": experiment.device}
        words |= {"allow_pickle": experiment.allow_pickle, **experiment.ensemble}
        return ensemble(experiment.pool.models, **words), DataBudget()
    if experiment.recipe is None:
        assert experiment.pool.base is not None
        return experiment.pool.base, DataBudget()
    prepared = _found(experiment, quiet)
    if prepared.recipe is None:
        return prepared.model, prepared.budget
    merged = merge(
        prepared.recipe,
        out=experiment.out,
        threads=experiment.threads,
        device=experiment.device,
        force=experiment.force,
        quiet=quiet,
    )
    return (merged.out if isinstance(merged, Summary) else merged), prepared.budget


def _found(experiment: Experiment, quiet: bool) -> PreparedRecipe:
    """What is left to do when the data was looked at that the recipe needs."""
    from smelt.prepare.prepare import prepare

    assert experiment.recipe is not None
    return prepare(
        experiment.recipe,
        device=experiment.device,
        threads=experiment.threads,
        quiet=quiet,
        learned=experiment.learned,
        save=experiment.save,
        out=experiment.out,
        force=experiment.force,
    )


def _check_evaluation(experiment: Experiment, wanted: EvaluationPlan, data: DataCache) -> None:
    """Open the pictures and the text model before anything is merged: what is missing is said at once."""
    from smelt.engine.pool import opened
    from smelt.files.reading import read_json_table
    from smelt.recipe.schema import Pool
    from smelt.tasks.registry import find_tasks

    for task in find_tasks(list(wanted.tasks)):
        task.check_split(wanted.split)
        if not task.fails_alone:
            task.prepare(wanted.split, limit=None, data=data)
    if wanted.text_from is None or experiment.pool.base in (None, wanted.text_from):
        return
    pool = Pool(base=experiment.pool.base, models={"clip_model": wanted.text_from})
    with opened(pool, allow_pickle=experiment.allow_pickle) as models:
        configs = [
            read_json_table(source.folder / "config.json").get("vision_config", {})
            for source in models.all.values()
            if source.folder is not None and (source.folder / "config.json").exists()
        ]
    for word in ("hidden_size", "num_hidden_layers", "patch_size", "image_size"):
        values = {config.get(word) for config in configs if config.get(word) is not None}
        if len(values) > 1:
            raise RecipeError(
                f"taskpool.clip_model is {wanted.text_from}, but the models were made from {experiment.pool.base}: "
                f"{word} differs ({' and '.join(map(str, sorted(values)))}); give taskpool.clip_model the models' base"
            )


def _evaluated(
    experiment: Experiment,
    wanted: EvaluationPlan,
    made: tuple[Model, DataBudget],
    command: str,
    quiet: bool,
    data: DataCache,
) -> dict[str, Any]:
    """Accuracy and loss by task, in FusionBench's shape."""
    from smelt.prepare.evaluate import evaluate

    model, budget = made
    recipe = experiment.recipe
    try:
        rows = evaluate(
            model,
            list(wanted.tasks),
            text_from=wanted.text_from,
            split=wanted.split,
            limit=wanted.limit,
            corruption=wanted.corruption,
            batch=wanted.batch,
            device=experiment.device,
            threads=experiment.threads,
            quiet=quiet,
            data=data,
            allow_pickle=experiment.allow_pickle,
            entry=experiment.method,
            label=experiment.method,
            recipe=recipe.dump() if recipe else None,
            recipe_hash=recipe.hash if recipe else None,
            seed=experiment.seed,
            data_budget=budget,
            command=command,
        )
    except RecipeError as error:
        if wanted.text_from == experiment.pool.base:
            raise
        hint = f"taskpool.clip_model is {wanted.text_from}, but the models were made from {experiment.pool.base}"
        raise RecipeError(f"{error}\n{hint}") from None
    return fusionbench_report(rows, {"model": model if isinstance(model, str) else "merged"})


def _counted(experiment: Experiment, model: Model) -> dict[str, int]:
    """How large the model is, where nothing is evaluated."""
    if isinstance(model, str) and (Path(model) / "mix.json").is_file():
        from smelt.formats.safetensors import read_header

        headers = [read_header(path) for path in sorted(Path(model).glob("*.safetensors"))]
        sizes = [info.count for header in headers for info in header.tensors.values()]
    elif isinstance(model, str):
        from smelt.models.references import open_ref

        source = open_ref(model, allow_pickle=experiment.allow_pickle)
        sizes = [info.count for info in source.tensors.values()]
        source.close()
    else:
        assert isinstance(model, dict)  # an ensemble is always evaluated
        sizes = [tensor.numel() for tensor in model.values()]
    return {"all_params": sum(sizes), "tensors": len(sizes)}


def _make_room(path: Path) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    if path.is_dir():
        raise RecipeError(f"{path} is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: its folder cannot be made ({error.strerror})") from None


def _save(path: Path, report: dict[str, Any]) -> None:
    """Whole or not at all: a report that is half written would look like a result."""
    write_json(path, report, indent=4, fault="the report cannot be written")
