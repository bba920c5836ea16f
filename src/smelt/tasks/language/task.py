"""A language task: a folder with `harness.yaml` (a task of the lm-evaluation-harness), a README and its data.

    task: maths
    dataset_path: json                       # data in the folder: one JSON object per line, .gz or not
    dataset_kwargs: {data_files: {train: train.jsonl.gz, test: test.jsonl.gz}}
    test_split: test                         # train, val, test; those that it has
    output_type: generate_until              # or multiple_choice
    doc_to_text: "{{prompt}}"
    doc_to_target: "{{answer}}"
    process_results: !function smelt.tasks.language.scoring.numbers.score
    generation_kwargs: {max_gen_toks: 48, do_sample: false, until: []}
    metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]   # the first is the score
    metadata: {version: 1, title: Sums, domain: maths, chat: true, loss: false}

A task that names a training split alone is data to learn from; it needs no `metric_list`. `judged` says what a model
that judges replies decides about (judge.py). `chat` puts the prompt into the model's chat template as the user's words
(`if-any`: where it has one); `loss` asks for the loss on the reference answers too. A `limit` takes the first examples
of a split: data are shuffled when they are packed. A task that names a data set of the hub instead of files works where
it can be downloaded. Nothing here loads the harness before a task is prepared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from smelt.errors import RecipeError, listed, unknown
from smelt.tasks.documents import Documents
from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.language.harness_file import read_harness_file
from smelt.tasks.task import Task, TaskError

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.language.ask import PreparedLanguage
    from smelt.tasks.language.examples import LanguageExamples
    from smelt.tasks.pictures.data_cache import DataCache

__all__ = ["FILE", "LanguageTask", "LibraryTask"]

FILE = "harness.yaml"

_SPLITS = {"train": "training_split", "val": "validation_split", "test": "test_split"}
"""Our name of a split -> the harness's word for it."""


@dataclass(frozen=True)
class LanguageTask(Task):
    """What is asked of a language model, and how its answers are judged."""

    kind: ClassVar[str] = "language"
    called: ClassVar[str] = "a language task"
    model_kind: ClassVar[str] = "causal_lm"
    fails_alone: ClassVar[bool] = True
    has_examples: ClassVar[bool] = True
    corruption_refusal: ClassVar[str | None] = "language tasks have no pictures to corrupt; leave it out"

    name: str
    folder: Path
    config: Mapping[str, Any] = field(repr=False)
    """The YAML as it is read; functions are still names."""

    @classmethod
    def load(cls, path: str | Path) -> LanguageTask:
        """Read a task's folder (or its harness.yaml)."""
        path = Path(path)
        file = path if path.is_file() else path / FILE
        if not file.is_file():
            raise TaskError(f"{path}: no such language task (a folder with a {FILE})")
        config = read_harness_file(file)
        faults = _faults(config)
        if faults:
            raise TaskError(f"{file}: {listed(faults)}")
        return cls(config["task"], file.parent.resolve(), config)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the YAML says of the task beyond the harness's own words."""
        known: Mapping[str, Any] = self.config.get("metadata") or {}
        return known

    @property
    def version(self) -> int:
        return int(float(self.metadata.get("version", 1)))

    @property
    def title(self) -> str:
        return str(self.metadata.get("title", ""))

    @property
    def domain(self) -> str | None:
        """The skill that it tests, where it belongs to one."""
        domain = self.metadata.get("domain")
        return None if domain is None else str(domain)

    @property
    def chat(self) -> bool:
        """Whether prompts go into the model's chat template."""
        return bool(self.metadata.get("chat", False))

    @property
    def wants_loss(self) -> bool:
        return bool(self.metadata.get("loss", False))

    @property
    def metric(self) -> str:
        """The first metric: the task's score; nothing where it is data to learn from alone."""
        metrics = self.config.get("metric_list")
        return str(metrics[0]["metric"]) if metrics else ""

    @property
    def judged(self) -> str:
        """What a judge decides about its replies (judge.JUDGED); nothing where none is needed."""
        return str(self.metadata.get("judged", ""))

    @property
    def judge(self) -> str | None:
        """The model that judges the replies; None where a rule does."""
        return self.metadata.get("judge")

    def variant(self, word: str) -> LanguageTask:
        """The same task with another model as judge."""
        if not self.judged:
            raise TaskError(f"{self.name}: no judge is needed for its replies; leave @{word} out")
        return replace(self, config={**self.config, "metadata": {**self.metadata, "judge": word}})

    @property
    def reference(self) -> str:
        return f"{self.folder}@{self.judge}" if self.judge else super().reference

    def fingerprint(self) -> str:
        own = super().fingerprint()
        return f"{own}-{self.judge}" if self.judge else own

    def data_sets(self) -> list[tuple[str, str | None]]:
        path = self.config.get("dataset_path")
        return [] if self.files or not path else [(str(path), self.config.get("dataset_name"))]

    @property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The data files of every split, where the data are files."""
        named = (self.config.get("dataset_kwargs") or {}).get("data_files") or {}
        return {
            split: tuple(self.folder / file for file in ([files] if isinstance(files, str) else files))
            for split, files in named.items()
        }

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        return tuple(self.files) or tuple(split for split, word in _SPLITS.items() if self.config.get(word))

    def count(self, split: str) -> int | None:
        """The number of examples of a split, where it is known without a download."""
        from smelt.tasks.language.records import count_records

        self.check_split(split)
        return count_records(self.files[split]) if split in self.files else None

    def documents(self, split: str) -> list[Documents]:
        self.check_split(split)
        if split in self.files:
            return [Documents(str(file)) for file in self.files[split]]
        data, part = str(self.config.get("dataset_path")), self.config.get("dataset_name")
        return [Documents(data, part, self.harness_split(split))]

    def records(self, split: str) -> list[dict[str, Any]]:
        """Every example of a split as it is stored."""
        from smelt.tasks.language.records import read_records

        self.check_split(split)
        if split not in self.files:
            raise TaskError(f"{self.name}: its data are {self.source}; only those in files can be read as records")
        return read_records(self.files[split], f"{self.name}/{split}")

    def harness_tasks(self, split: str) -> dict[str, Any]:
        """The harness's own task objects, ready to be run, by name."""
        from smelt.tasks.language.prepare import harness_task

        self.check_split(split)
        return {self.name: harness_task(self, split)}

    def pairs(self, split: str) -> list[tuple[str, str]]:
        """Prompt and reference answer of every example, as plain text: before any chat template."""
        from smelt.tasks.language.prepare import pairs_of

        return pairs_of(self._only_part(split))

    @property
    def delimiter(self) -> str:
        """What stands between a prompt and its answer where they are one text."""
        return str(self.config.get("target_delimiter", " "))

    def _only_part(self, split: str) -> Any:
        parts = self.harness_tasks(split)
        if len(parts) != 1:
            some = ", ".join([*parts][:3])
            raise TaskError(f"{self.name} is a group of {len(parts)} tasks; take one of them, such as {some}")
        (part,) = parts.values()
        return part

    def harness_split(self, split: str) -> str:
        """What the data set calls a split."""
        return split if self.files else str(self.config[_SPLITS[split]])

    @property
    def source(self) -> str:
        """Where the examples come from, for people."""
        if self.files:
            return "files in the task's folder"
        name = self.config.get("dataset_name")
        return f"hf:{self.config.get('dataset_path')}" + (f" ({name})" if name else "")

    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedLanguage:
        from smelt.tasks.language.ask import PreparedLanguage

        return PreparedLanguage(self, split, limit, self.harness_tasks(split))

    def examples(
        self,
        model: Any,
        split: str,
        *,
        count: int | None = None,
        data: DataCache | None = None,
        corruption: Corruption | None = None,
    ) -> LanguageExamples:
        from smelt.tasks.language.examples import language_examples

        if corruption is not None:
            raise RecipeError(
                f"{self.name}: {corruption.name} is done to pictures, and this task has texts; leave it out"
            )
        return language_examples(model, self, split=split, count=count)

    def number_of_examples(self, split: str, data: DataCache) -> int:
        return self.count(split) or len(self.pairs(split))

    def words(self) -> dict[str, Any]:
        return {**super().words(), "domain": self.domain, "metric": self.metric or None, "chat": self.chat}

    def first_lines(self) -> list[str]:
        return [
            *super().first_lines(),
            *([f"domain:     {self.domain}"] if self.domain else []),
            f"metric:     {self.metric or 'its first'}" + (", chat" if self.chat else ""),
        ]

    def last_lines(self) -> list[str]:
        split = "test" if "test" in self.splits else next(iter(self.splits), "")
        if split not in self.files:
            return []
        first = self.records(split)[0]
        shown = [f"  {word}: {first[word]}" for word in ("prompt", "choices", "answer") if word in first]
        return [f"an example of {split}:", *shown]


@dataclass(frozen=True)
class LibraryTask(LanguageTask):
    """A task or a group of a harness's own library, by its name there; what it holds is known when it is prepared."""

    PREFIX: ClassVar[str]

    @property
    def reference(self) -> str:
        return self.PREFIX + self.name

    @property
    def metric(self) -> str:
        """The one that was named; else the first, which is known when it is prepared."""
        return self.name.partition("@")[2]

    @property
    def splits(self) -> tuple[str, ...]:
        """The library decides itself which part of the data it evaluates."""
        return ("test",)

    def documents(self, split: str) -> list[Documents]:
        """Nobody can say without its config."""
        return []


def _faults(config: Mapping[str, Any]) -> list[str]:
    faults = []
    if not isinstance(config.get("task"), str):
        faults.append("`task`, its name, is missing")
    metrics = config.get("metric_list")
    splits = [split for split, word in _SPLITS.items() if config.get(word)]
    learned_from = metrics is None and splits == ["train"]
    named = isinstance(metrics, list) and bool(metrics) and isinstance(metrics[0], dict) and "metric" in metrics[0]
    if not named and not learned_from:
        faults.append("`metric_list` has no first metric; it is the task's score, as `[{metric: exact_match}]`")
    if not isinstance(config.get("metadata") or {}, dict):
        faults.append("`metadata` is a table")
    else:
        faults += _version_faults((config.get("metadata") or {}).get("version", 1))
    kwargs = config.get("dataset_kwargs") or {}
    if not isinstance(kwargs, dict):
        return [*faults, f"`dataset_kwargs` is a table, as {{data_files: {{test: test.jsonl.gz}}}}; got {kwargs!r}"]
    files = kwargs.get("data_files")
    if files is not None and not (isinstance(files, dict) and files):
        faults.append("`dataset_kwargs.data_files` is a table: {test: test.jsonl.gz}")
    elif files is not None:
        faults += [unknown("split", str(name), _SPLITS) for name in files if name not in _SPLITS]
        faults += [
            f"`dataset_kwargs.data_files.{name}` is a file's name or a list of them; got {some!r}"
            for name, some in files.items()
            if not isinstance(some, str) and not _names(some)
        ]
    elif not config.get("dataset_path"):
        faults.append("there are no data: give `dataset_kwargs: {data_files: {test: test.jsonl.gz}}`")
    elif not any(config.get(word) for word in _SPLITS.values()):
        faults.append(f"names none of {', '.join(_SPLITS.values())}")
    return faults


def _names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _version_faults(version: Any) -> list[str]:
    try:
        return [] if int(float(version)) >= 0 else [f"version is {version!r}, a whole number from 0"]
    except (TypeError, ValueError, OverflowError):
        return [f"version is {version!r}, which is no number"]


task_kinds["language"] = TaskKind(LanguageTask.load, file=FILE)
