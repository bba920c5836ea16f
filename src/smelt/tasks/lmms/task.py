"""Tasks of lmms-eval's library: `lmms:gqa`, each by its first metric or one that is named (`lmms:seedbench@seed_all`).

The paper's held-out sets are the group `uqmerge`, its held-in sets `uqmerge-in`, by the library's names. OOD-CV is not
in the library. MMBench is judged by a model of OpenAI there; the task `mmbench_en_dev_static` reads the same answers by
rules. Of some tasks the options are known (`options.py`): `lmms:ai2d@letters` asks for the letter of one, as question
sets do, and a model can be uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.language.task import LibraryTask
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.lmms.ask import PreparedLmms
    from smelt.tasks.lmms.options import DocumentPictures
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.questions.ask import PreparedQuestions
    from smelt.tasks.questions.records import Question

__all__ = ["HELD_IN", "HELD_OUT", "PREFIX", "LmmsTask", "lmms_task"]

PREFIX = "lmms:"
LETTERED = "letters"
"""In the place of a metric: a model is asked by the letters of options."""
HELD_OUT = tuple(
    PREFIX + name for name in "ok_vqa_val2014 textvqa_val gqa mmmu_val vizwiz_vqa_val vqav2_val pope".split()
)
HELD_IN = tuple(PREFIX + name for name in "ai2d scienceqa_img seedbench@seed_image mmbench_en_dev_static".split())
_JUDGED = {"mmbench_en_dev": "mmbench_en_dev_static"}
"""Tasks whose answers the library sends to a model of OpenAI -> the same read by rules."""


@dataclass(frozen=True)
class LmmsTask(LibraryTask):
    """A task or a group of the library, answered in words about pictures; its data are loaded when it is prepared."""

    kind: ClassVar[str] = "questions"
    called: ClassVar[str] = "a task of lmms-eval"
    unit: ClassVar[str] = "question"
    model_kind: ClassVar[str] = "image_text"
    PREFIX: ClassVar[str] = PREFIX

    @property
    def source(self) -> str:
        return "lmms-eval, with data of the Hugging Face hub"

    def harness_tasks(self, split: str) -> dict[str, Any]:
        from smelt.tasks.lmms.harness import parts

        self.check_split(split)
        return dict(parts(self.name.partition("@")[0]))

    @property
    def has_options(self) -> bool:
        from smelt.tasks.lmms.options import READERS

        return self.name.partition("@")[0] in READERS

    @property
    def answered_by_option(self) -> bool:
        """Where it is named with @letters."""
        return self.metric == LETTERED

    @property
    def instruction(self) -> str:
        """The last line of every prompt, where it is asked by letters: the paper's."""
        from smelt.tasks.lmms.options import INSTRUCTION

        return INSTRUCTION

    @property
    def extra(self) -> tuple[str, ...]:
        """The two options that all questions have."""
        from smelt.tasks.questions.records import EXTRA

        return EXTRA

    def questions(self, split: str) -> list[Question]:
        """Its documents as questions with options."""
        from smelt.tasks.lmms.options import questions_of

        part = self._only_part(split)
        return questions_of(self.name.partition("@")[0], part.eval_docs_no_media)

    def pictures(self, split: str, questions: Sequence[Question], data: DataCache) -> DocumentPictures:
        from smelt.tasks.lmms.options import DocumentPictures

        return DocumentPictures(self.name, self._only_part(split))

    def picture_name(self, question: Question) -> str:
        """Every document has a picture of its own, as far as its columns tell."""
        return f"{self.reference} {question.picture}"

    def line(self, split: str, question: Question) -> str:
        return f"{self.reference}: document {question.picture}"

    def prepare(  # type: ignore[override] # what a task of the language harness gives has other objects
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedLmms | PreparedQuestions:
        from smelt.tasks.lmms.ask import PreparedLmms
        from smelt.tasks.questions.ask import QuestionCache

        if self.answered_by_option:
            return data.beside(QuestionCache).prepared(self, split, limit, data)
        return PreparedLmms(self, split, limit, self.harness_tasks(split))


def lmms_task(name: str) -> LmmsTask:
    """A task by its name in the library, without a look whether it is there: its index takes seconds to read."""
    name = name.removeprefix(PREFIX)
    other = _JUDGED.get(name.partition("@")[0])
    if other is not None:
        raise TaskError(
            f"{PREFIX}{name}: its answers are judged by a model of OpenAI, over the network; "
            f"take {PREFIX}{other}, which reads the same answers by rules"
        )
    found = LmmsTask(name, Path(), {})
    if found.answered_by_option and not found.has_options:
        from smelt.tasks.lmms.options import READERS

        raise TaskError(
            f"{PREFIX}{name}: the options of its documents are not known here; "
            f"those of these tasks are: {', '.join(READERS)}"
        )
    return found


task_kinds["lmms"] = TaskKind(lmms_task, prefix=PREFIX)
