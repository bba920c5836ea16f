"""The public call: `smelt.mix(recipe)` -> a mixed model in a folder. The command `smelt mix` is this function."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from smelt.display.blocks import Cell, Lines, Table
from smelt.display.shown import Shown
from smelt.engine.request import read_request
from smelt.errors import CorruptFile, OutputError, RecipeError, unknown
from smelt.files.cache import cached_path
from smelt.files.reading import read_bytes, read_json
from smelt.files.remote_code import takes_trust
from smelt.formats import dtype as dtypes
from smelt.mixing.mix_note import ROUTING, TRACE, Learning, MixNote
from smelt.mixing.mixers import ROUTED, mixers, read_mixer
from smelt.recipe.schema import DataBudget, Recipe
from smelt.recipe.words import MergeWords

if TYPE_CHECKING:
    import torch

    from smelt.engine.pool import ModelPool
    from smelt.mixing.classifier import MixedClassifier
    from smelt.mixing.network import MixedNetwork
    from smelt.mixing.wemoe import WeMoE
    from smelt.models.families.family import Classifier
    from smelt.models.families.network import Network
    from smelt.tasks.examples import ExampleStream

__all__ = ["Mixed", "mix"]

_VERSION = 1
"""Raised when the same request gives other numbers."""
_DEFAULT_SPLIT = "val"


@dataclass(frozen=True)
class Mixed(Shown):
    """What a finished mixture reports."""

    folder: Path
    note: MixNote
    trace: list[dict[str, Any]]
    """A line per step: step, loss by model, seconds."""
    routing: dict[str, Any] | None
    """Mean gates by task and expert; see `smelt.mixing.routing`."""
    cached: bool = False

    @property
    def budget(self) -> DataBudget:
        """The data that its making used."""
        return self.note.data_budget

    @property
    def seconds(self) -> float:
        """What learning took when it was done."""
        return float(sum(line.get("seconds", 0.0) for line in self.trace))

    def shown(self) -> list[Table | Lines]:
        learned, used = self.note.learning, self.budget
        what = "from the cache" if self.cached else f"{learned.steps} steps in {self.seconds:.1f} s"
        said = [f"{self.folder}: {len(self.note.experts)} experts, {what}"]
        if learned.steps:
            first, last = (sum(loss.values()) / len(loss) for loss in (learned.first, learned.last))
            labels = f"{used.labels:,} labels" if used.labels else "no labels"
            data = f"{used.images:,} examples{f' of {used.split}' if used.split else ''}, {labels}"
            said.append(f"mean loss {first:.3f} at the start, {last:.3f} at the end ({data})")
        tasks = ",".join(dict.fromkeys(self.note.tasks.values())) or "clip8"
        after = Lines([f"next: smelt eval {self.folder} --tasks {tasks}"])
        return [Lines(said), *([_gates(self.routing)] if self.routing else []), after]

    def load(self, *, device: str = "cpu", dtype: str = "float32") -> MixedClassifier:
        """The mixture, ready to classify."""
        from smelt.mixing.classifier import load_mixed

        return load_mixed(self.folder, device=device, dtype=dtype)


@takes_trust
def mix(  # type: ignore[misc] # `routers` is a file here: those of a mixture are learned, so a recipe has no say in them
    models: Any,
    *,
    base: Any = None,
    method: str | None = None,
    out: str | Path | None = None,
    streams: Mapping[str, ExampleStream] | None = None,
    routers: str | Path | None = None,
    text_from: Any = None,
    device: str = "cpu",
    threads: int | None = None,
    resume: bool = True,
    force: bool = False,
    quiet: bool = True,
    trust_remote_code: bool = False,
    **words: Unpack[MergeWords],
) -> Mixed:
    """Mix fine-tuned models into one larger model that chooses between them for each sample.

    `models` is a recipe (a Recipe, a table, the path of a YAML file) whose `merge` names a way to mix, or models as
    `smelt.merge` takes them, by reference, with their `base` and a `method` ("wemoe"). Other keywords are parameters of
    the method (`steps=300`, also over a recipe's) or words of the recipe (`data`, `dtype`, `seed`, `include`, ...).

    Routers are learned on the task of each model, paired by name (`data: {tasks, split, examples}`; all of `val` unless
    said otherwise), or on `streams` by the model's name, or read from the file `routers`. With `steps=0` they stay as
    they begin and no data is touched. `text_from` gives the text tower where the base lacks one.

    The result is a folder: `out`, or one in the cache under a hash of all that it follows from, made once. A run that
    was interrupted goes on where it was unless `resume` is false.
    """
    recipe, relative_to = _read(models, base, method, words)
    settings = read_mixer(recipe)
    from smelt.engine.pool import opened

    with opened(recipe.pool, relative_to=relative_to, allow_pickle=recipe.allow_pickle) as pool:
        mixture = _MixRun(recipe, settings, pool, streams, routers, text_from, device, threads)
        return mixture.run(Path(out) if out is not None else None, resume=resume, force=force, quiet=quiet)


def _read(models: Any, base: Any, method: str | None, words: Mapping[str, Any]) -> tuple[Recipe, Path | None]:
    if not isinstance(models, Recipe | str | Path) and not (isinstance(models, Mapping) and "pool" in models):
        request = read_request(models, base, method or "wemoe", words)
        if request.pool is not None:
            raise RecipeError(
                "a mixture is a folder made from references; for models in memory see "
                "`smelt.mixing.network.mixed_network`"
            )
        return request.recipe, request.relative_to
    own = {name for stage in mixers.values() for name in stage.parameters}
    known = own | (Recipe.model_fields.keys() - {"pool", "merge"})
    strange = sorted(words.keys() - known)
    if strange:
        raise RecipeError(unknown("parameter or word of the recipe", strange[0], known))
    request = read_request(models, base, method, {word: value for word, value in words.items() if word not in own})
    first, *others = request.recipe.merge
    changed = {**first.parameters, **{word: value for word, value in words.items() if word in own}}
    calls = [first.model_copy(update={"parameters": changed}), *others]
    return request.recipe.model_copy(update={"merge": calls}), request.relative_to


class _MixRun:
    """One mixture on its way: everything is known, nothing is computed yet."""

    def __init__(
        self,
        recipe: Recipe,
        settings: WeMoE,
        pool: ModelPool,
        streams: Mapping[str, ExampleStream] | None,
        routers: str | Path | None,
        text_from: Any,
        device: str,
        threads: int | None,
    ):
        from smelt.formats.packs.source import base_hashes
        from smelt.models.families.load import load
        from smelt.models.families.network import network_of

        self.recipe, self.pool, self.routers, self.threads = recipe, pool, routers, threads
        self.classifier: Classifier = load(
            pool.base, "classifier", text_from=text_from, device=device, allow_pickle=recipe.allow_pickle
        )
        self.network: Network = network_of(self.classifier)
        self.family = "clip"
        self.routed = settings.routed or self._mlps()
        self.settings = replace(settings, routed=self.routed)
        self.learns = settings.steps > 0 and routers is None
        self.tasks: dict[str, str] = {}
        self.streams = self._streams(streams)
        refs = recipe.pool.refs
        self.parents = {name: {"ref": refs[name], "files": base_hashes(source)} for name, source in pool.all.items()}

    def run(self, out: Path | None, *, resume: bool, force: bool, quiet: bool) -> Mixed:
        from smelt.engine.sink.output import check_output
        from smelt.formats.source import files_of
        from smelt.mixing.mixed_folder import Record, bytes_of, write_mixed
        from smelt.mixing.network import mixed_network
        from smelt.mixing.routing import routing_of_streams

        kept = cached_path("mix", self.key)
        place = out if out is not None else kept / "model"
        if out is None and resume and (done := _finished(place)) is not None:
            return done
        sources = [path for s in self.pool.all.values() for path in (*s.files, *([s.folder] if s.folder else []))]
        replaces = force or out is None
        check_output(place, sources, force=replaces, needed=0)
        formats = self._formats()
        mixed = mixed_network(
            self.network,
            dict(self.pool.models),
            routed=self.routed,
            settings=self.settings,
            seed=self.recipe.seed,
            keys=self._keys(),
            formats=formats,
        )
        check_output(place, sources, force=replaces, needed=bytes_of(mixed))
        trace = self._learn(mixed, kept / "learning", resume, quiet)
        routing = routing_of_streams(mixed, self.streams) if self.streams else None
        inputs = files_of(self.pool.all.values())
        record = Record(self.recipe, self._note(trace), trace, routing, self._files(), inputs)
        place.parent.mkdir(parents=True, exist_ok=True)
        note = write_mixed(mixed, place, record, formats, force=replaces)
        return Mixed(place, note, trace, routing)

    @property
    def key(self) -> str:
        """A hash over everything that the result follows from."""
        content = {
            "version": _VERSION,
            "parents": {name: parent["files"] for name, parent in self.parents.items()},
            "text": getattr(self.classifier, "rest_hash", None),
            "streams": {name: stream.hash for name, stream in self.streams.items()},
            "method": self.recipe.merge[0].name,
            "parameters": asdict(self.settings),
            "routers": hashlib.sha256(read_bytes(_routers_file(self.routers))).hexdigest() if self.routers else None,
            "keys": self._keys(),
            "dtype": self.recipe.dtype,
            "seed": self.recipe.seed,
            "device": self.classifier.device.split(":")[0],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _mlps(self) -> str:
        """The pattern of the family's MLPs; a tower without any, such as a convolutional one, is refused."""
        from smelt.recipe.patterns import matches

        pattern = ROUTED[self.family]
        if not any(matches(pattern, name) for name, _ in self.network.module.named_modules()):
            raise RecipeError(
                f"{self.classifier.label}: {self.recipe.merge[0].name} routes the MLPs of a transformer ({pattern}), "
                "and this picture tower has none; merge its models instead (`smelt merge`), or name modules with "
                "linear layers under `routed`"
            )
        return pattern

    def _streams(self, given: Mapping[str, ExampleStream] | None) -> dict[str, ExampleStream]:
        names = list(self.recipe.pool.models)
        if given is not None:
            from smelt.tasks.examples import check_streams

            streams = check_streams(names, given)
            self.tasks = {name: stream.name for name, stream in streams.items()}
            return streams
        if not self.learns:
            return {}
        from smelt.tasks.examples import streams_for, tasks_for

        tasks = tasks_for(names, self.recipe.data)
        self.tasks = {name: task.name for name, task in tasks.items()}
        return streams_for(self.classifier, tasks, self.recipe.data, split=_DEFAULT_SPLIT)

    def _keys(self) -> list[str]:
        """The tensors that the experts may change."""
        from smelt.recipe.patterns import chosen

        return [key for key in self.network.keys if chosen(key, self.recipe.include, self.recipe.skip)]

    def _formats(self) -> dict[str, torch.dtype]:
        """The number format of each tensor on disk: the recipe's for what is merged, the base's own otherwise."""
        assert self.pool.base is not None
        own = {name: info.dtype for name, info in self.pool.base.tensors.items() if info.dtype in dtypes.WRITABLE}
        if self.recipe.dtype is not None:
            own |= dict.fromkeys(self._keys(), dtypes.parse_dtype(self.recipe.dtype))
        return {name: dtypes.torch_dtype(code) for name, code in own.items()}

    def _learn(self, mixed: MixedNetwork, folder: Path, resume: bool, quiet: bool) -> list[dict[str, Any]]:
        from smelt.mixing.checkpoint import load_routers

        if self.routers is not None:
            load_routers(mixed.routers, self.routers)
        if not self.learns:
            return []
        from smelt.mixing.objective import router_objective
        from smelt.optimise.loop import optimise
        from smelt.system.progress import Progress

        if not resume and folder.exists():
            shutil.rmtree(folder)
        want = self.settings
        with (
            router_objective(mixed, want.loss, threads=self.threads) as objective,
            Progress(quiet, "pictures") as watch,
        ):
            watch.begin(self.recipe.merge[0].name, want.steps * want.batch * len(self.streams))
            trace = optimise(
                objective,
                self.streams,
                steps=want.steps,
                lr=want.lr,
                batch=want.batch,
                seed=self.recipe.seed,
                folder=folder,
                patience=want.patience,
                tell=lambda line: watch.advance(want.batch * len(line["loss"])),
            )
            watch.end("learned")
            return trace

    def _note(self, trace: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "method": self.recipe.merge[0].name,
            "family": self.family,
            "parameters": asdict(self.settings),
            "routed": self.routed,
            "experts": list(self.pool.models),
            "tasks": self.tasks,
            "seed": self.recipe.seed,
            "parents": self.parents,
            "learning": Learning.of(trace),
            "data_budget": self._budget() if trace else DataBudget(split="not known" if self.routers else None),
        }

    def _budget(self) -> DataBudget:
        images = sum(len(stream) for stream in self.streams.values())
        splits = {stream.budget.split for stream in self.streams.values()}
        labels = images if self.settings.loss == "labels" else 0
        return DataBudget(split=splits.pop() if len(splits) == 1 else None, images=images, labels=labels)

    def _files(self) -> dict[str, bytes | Path]:
        """Config, tokenizer and processor: the text's model first, then what the base has of its own."""
        from smelt.formats.folder_files import small_files

        files: dict[str, bytes | Path] = {}
        for folder in (getattr(self.classifier, "text_folder", None), getattr(self.classifier, "folder", None)):
            files |= small_files(folder)
        config = getattr(self.classifier, "config", None)
        if config is not None:
            files["config.json"] = json.dumps(dict(config), indent=2, ensure_ascii=False).encode() + b"\n"
        return files


def _finished(place: Path) -> Mixed | None:
    """A mixture of the cache that is whole; one that is not is made again."""
    from smelt.optimise.state import read_trace

    try:
        if not place.is_dir():
            return None
        note = MixNote.load(place)
        routing = read_json(place / ROUTING) if (place / ROUTING).is_file() else None
        return Mixed(place, note, read_trace(place / TRACE), routing, cached=True)
    except (CorruptFile, OutputError, OSError, ValueError):
        return None


def _routers_file(path: str | Path) -> Path:
    file = Path(path)
    if not file.is_file():
        raise RecipeError(f"there are no routers at {file}")
    return file


def _gates(routing: Mapping[str, Any]) -> Table:
    lines = zip(routing["rows"], routing["matrix"], strict=True)
    rows = [[task, *(Cell(f"{gate:.2f}", gate) for gate in gates)] for task, gates in lines]
    return Table(["task", *routing["columns"]], rows, "mean gates over all blocks: tasks by row, experts by column")
