"""Which documents of a library's task are its `train`, `val` and `test`.

lm-eval:arc_fr                    as the library's config names them: training, validation and test split
lm-eval:mmlu_stem#validation      `val` is the split `validation` of its data set, which the config does not name
lm-eval:gsm8k_cot#test[:200]      `val` is the first 200 documents of `test`; `test` is the rest
lm-eval:lambada_openai@acc#test   all of `test` is for validation: there is no `test` any more

What stands after `#` is for validation and is never reported: it is taken out of the other splits. Where a config names
no test split the library evaluates on its validation split; that is then the `test` here, and no `val`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.errors import unknown
from smelt.tasks.documents import Documents
from smelt.tasks.task import TaskError

__all__ = ["LibraryName", "documents_of", "part_at", "part_configs", "splits_of"]

_WORDS = {"train": "training_split", "val": "validation_split", "test": "test_split"}
_RANGE = re.compile(r"(?P<split>[^\[\]]+)(\[(?P<start>\d*):(?P<stop>\d*)\])?")


@dataclass(frozen=True)
class LibraryName:
    """NAME@METRIC#DOCUMENTS: a task of a library, the metric that counts, the documents that are for validation."""

    task: str
    metric: str = ""
    held_out: Documents | None = None
    """For validation; its `data` and `part` say nothing."""

    @classmethod
    def read(cls, text: str) -> LibraryName:
        name, marked, told = text.partition("#")
        task, _, metric = name.partition("@")
        found = _RANGE.fullmatch(told)
        if marked and found is None:
            raise TaskError(
                f"{text}: after # comes a split of the data set, or some of its documents: {name}#validation, "
                f"{name}#test[:200]"
            )
        if found is None:
            return cls(task, metric)
        start, stop = int(found["start"] or 0), int(found["stop"]) if found["stop"] else None
        if stop is not None and stop <= start:
            raise TaskError(f"{text}: holds no document; write {name}#{found['split']}[{start}:{start + 200}]")
        return cls(task, metric, Documents("", None, found["split"], start, stop))


def part_configs(manager: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """The configs of a task, or of all tasks of a group or tag, as their files have them; no data are loaded.

    One that is a class and no config gives its data set alone.
    """
    from lm_eval.tasks._index import Kind
    from lm_eval.tasks._yaml_loader import load_yaml

    entry = manager.task_index[name]
    if entry.kind == Kind.TAG:
        for one in sorted(entry.tags):
            yield from part_configs(manager, one)
        return
    config = dict(load_yaml(entry.yaml_path, resolve_func=False, recursive=True))
    if entry.kind == Kind.GROUP:
        for one in config["task"]:
            other = {} if isinstance(one, str) else {word: what for word, what in one.items() if word != "task"}
            inner = one if isinstance(one, str) else one.get("task", one.get("group"))
            if isinstance(inner, str) and inner in manager.task_index:
                yield from ({**part, **other} for part in part_configs(manager, inner))
            elif isinstance(one, dict):
                yield one
    elif "class" in config:
        written = load_yaml(entry.yaml_path, resolve_func=True)["class"]
        yield {"task": name, "dataset_path": written.DATASET_PATH, "dataset_name": written.DATASET_NAME, "class": True}
    else:
        yield config


def splits_of(configs: Sequence[Mapping[str, Any]], held_out: Documents | None) -> tuple[str, ...]:
    """The splits that every part has."""
    found = []
    for split in _WORDS:
        if (split == "val" and held_out is not None) or all(
            _named(config, split) and not _all_held_out(config, split, held_out) for config in configs
        ):
            found.append(split)
    return tuple(found)


def documents_of(configs: Sequence[Mapping[str, Any]], split: str, held_out: Documents | None) -> list[Documents]:
    """Which documents a split holds, over all parts."""
    found = []
    for config in configs:
        data, part = str(config.get("dataset_path")), config.get("dataset_name")
        if config.get("class") and not (split == "val" and held_out):
            found.append(Documents(data, part))
            continue
        if split == "val" and held_out is not None:
            found.append(Documents(data, part, held_out.split, held_out.start, held_out.stop))
            continue
        name = _named(config, split)
        rest = [(0, None)] if held_out is None or held_out.split != name else _outside(held_out)
        found += [Documents(data, part, name, start, stop) for start, stop in rest]
    return found


def part_at(part: Any, split: str, held_out: Documents | None, name: str) -> Any:
    """A loaded part that is evaluated on one split; `name` is the task's, for messages."""
    if split == "test" and held_out is None:
        return part
    if split == "val" and held_out is not None:
        wanted, ranges = str(held_out.split), [(held_out.start, held_out.stop)]
    else:
        wanted = _named_of_part(part, split)
        ranges = [(0, None)] if held_out is None or held_out.split != wanted else _outside(held_out)
    if wanted not in part.dataset:
        raise TaskError(f"{name}: {unknown(f'split of {part.DATASET_PATH}', wanted, list(part.dataset))}")
    whole = part.dataset[wanted]
    places = [place for start, stop in ranges for place in range(start, min(len(whole), stop or len(whole)))]
    if not places:
        raise TaskError(f"{name}: `{split}` holds no document; {wanted} of {part.DATASET_PATH} has {len(whole)}")
    chosen = whole if len(places) == len(whole) else whole.select(places)
    process = part.config.process_docs
    made = copy.copy(part)  # its own requests; data, prompts and scoring are the same
    documents = chosen if process is None else process(chosen)
    made.has_test_docs, made.test_docs = lambda: True, lambda: documents
    return made


def _named(config: Mapping[str, Any], split: str) -> str | None:
    """What the data set calls a split; the library evaluates on the validation split where there is no other."""
    if config.get("class"):
        return "test" if split == "test" else None
    if split == "test":
        return config.get("test_split") or config.get("validation_split")
    if split == "val" and not config.get("test_split"):
        return None
    return config.get(_WORDS[split])


def _named_of_part(part: Any, split: str) -> str:
    words = {word: getattr(part.config, word, None) for word in _WORDS.values()}
    if not any(words.values()):  # a class, which has methods in their place
        words |= {"test_split": "test" if part.has_test_docs() else "validation"}
    return str(_named(words, split))


def _all_held_out(config: Mapping[str, Any], split: str, held_out: Documents | None) -> bool:
    return held_out is not None and held_out.split == _named(config, split) and not _outside(held_out)


def _outside(held_out: Documents) -> list[tuple[int, int | None]]:
    """The places before and after a range."""
    before = [(0, held_out.start)] if held_out.start else []
    return [*before, *([(held_out.stop, None)] if held_out.stop is not None else [])]
