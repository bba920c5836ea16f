"""What numbers depend on, in a few letters each: the models' weights and small files, the tasks' files."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.pool import opened
from smelt.files.hashing.remembered import file_hashes
from smelt.files.identity import identities
from smelt.formats.source import Source
from smelt.recipe.schema import Pool

if TYPE_CHECKING:
    from smelt.tasks.find import AnyTask
    from smelt.tasks.questions.task import QuestionTask

__all__ = ["given_fingerprint", "model_fingerprints", "source_fingerprint", "task_fingerprint"]

_AROUND = (
    *("config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json"),
    *("open_clip_config.json", "adapter_config.json"),
)
"""Small files beside weights, and beside the tokenizer's, that a model's answers follow from."""


def model_fingerprints(pool: Pool, *, allow_pickle: bool = False) -> dict[str, str]:
    """Every model by name, the base among them, with a hash over the files that its numbers come from."""
    with opened(pool, allow_pickle=allow_pickle) as models:
        return {name: _digest(source.files) for name, source in models.all.items()}


def source_fingerprint(source: Source) -> str:
    """A hash over a model's numbers and the small files around them: config, tokenizer, template, preprocessor.

    The same weights with another tokenizer or another preparation of pictures give other answers.
    """
    from smelt.models.vocabulary.files import is_tokenizer_file

    folders = dict.fromkeys([source.folder, *(Path(file).parent for file in source.files)])
    around = [
        path
        for folder in folders
        if folder is not None and folder.is_dir()
        for path in sorted(folder.iterdir())
        if path.is_file() and (path.name in _AROUND or is_tokenizer_file(path.name))
    ]
    hashes = file_hashes({**source.files, **identities(around)})
    words = [*(hashes[file] for file in source.files), *(f"{path.name} {hashes[path]}" for path in around)]
    return _short("\n".join(words))


def given_fingerprint(model: Any, *, allow_pickle: bool = False) -> str:
    """The same of a model as somebody gave it: nothing, a reference, a Source, or a loaded one with its own hash."""
    if model is None:
        return ""
    if isinstance(model, Source):
        return source_fingerprint(model)
    if not isinstance(model, str | Path):
        return str(getattr(model, "hash", model))
    from smelt.models.references import open_ref

    with contextlib.closing(open_ref(str(model), allow_pickle=allow_pickle)) as source:
        return source_fingerprint(source)


def task_fingerprint(task: AnyTask) -> str:
    """The version, and a hash over the task's folder: other classes, prompts or examples are another task.

    Of a question set also over what its records name elsewhere: picture tasks, and pictures outside the folder. A task
    of the harness's own library has no folder: its version says what it is.
    """
    from smelt.tasks.questions.task import QuestionTask

    if not task.folder.parts:
        return str(task.version)
    files = [path for path in sorted(task.folder.rglob("*")) if path.is_file() and path.suffix != ".md"]
    own = _digest(files)
    named = _named(task, files) if isinstance(task, QuestionTask) else []
    return f"{task.version}-{_short(chr(10).join([own, *named])) if named else own}"


def _named(task: QuestionTask, known: Sequence[Path]) -> list[str]:
    """What the records of a question set need beside the files of its folder."""
    from smelt.tasks.find import picture_task
    from smelt.tasks.questions.records import picture_files, picture_places

    there = [split for split, name in task.files.items() if (task.folder / name).is_file()]
    pictures = [question.picture for split in there for question in task.questions(split)]
    tasks = sorted({name for picture in pictures for name, _, _ in picture_places(picture)})
    files = {task.folder / name for picture in pictures for name in picture_files(picture)} - set(known)
    prints = [f"{picture_task(name).name} {task_fingerprint(picture_task(name))}" for name in tasks]
    return [*prints, *([_digest(sorted(files))] if files else [])]


def _digest(files: Iterable[Path]) -> str:
    paths = list(files)
    hashes = file_hashes(paths)
    return _short("\n".join(hashes[path] for path in paths))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
