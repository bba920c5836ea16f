"""OOD-CV as a question set: how many objects a picture shows, under shifts of pose, shape, texture, context, weather.

    python -m smelt.tasks.questions.oodcv oodcv-vqa.json PICTURES OUT

The questions are `oodcv-vqa.json` of the data set PahaII/vllm_safety_evaluation on the Hugging Face hub, the pictures
those of OOD-CV, whose folder is PICTURES. As in Kostumov et al. 2024 (arXiv:2402.14418): those answered by a number
alone, two more numbers from 0 to 5 beside the two of the question, all in a drawn order. There the two may be the same
number; here they differ. What is drawn follows from the place of a question.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.errors import SmeltError
from smelt.files.reading import is_there, read_json
from smelt.files.writing import atomic_folder
from smelt.tasks.lmms.options import INSTRUCTION
from smelt.tasks.task import TaskError

__all__ = ["write_oodcv"]

_NUMBERS = ("Zero", "One", "Two", "Three", "Four", "Five")
_ABOUT = "# OOD-CV\n\nZhao et al. 2022, made from `oodcv-vqa.json` of PahaII/vllm_safety_evaluation.\n"


def write_oodcv(questions: Path, pictures: Path, out: Path) -> Path:
    """The folder of the question set; pictures are linked, not copied."""
    content = read_json(questions)
    if not isinstance(content, list) or not content:
        raise TaskError(f"{questions}: is a list of questions, as oodcv-vqa.json has it")
    counted = [one for one in content if isinstance(one, Mapping) and one.get("answer_type") == "number"]
    if not counted:
        raise TaskError(f"{questions}: has no question with the answer_type 'number'")
    lines = [_record(place, one, questions) for place, one in enumerate(counted)]
    gone = next((line["picture"] for line in lines if not is_there(pictures / line["picture"])), None)
    if gone is not None:
        raise TaskError(f"{pictures}: the picture {gone!r} is not there")
    about = {"name": "oodcv", "version": 1, "title": "OOD-CV: counting", "splits": {"test": "test.jsonl"}}
    with atomic_folder(out) as draft:
        (draft / "pictures").symlink_to(pictures.resolve(), target_is_directory=True)
        told = [json.dumps({**line, "picture": f"pictures/{line['picture']}"}) for line in lines]
        (draft / "test.jsonl").write_text("\n".join(told) + "\n")
        (draft / "questions.yaml").write_text(json.dumps({**about, "instruction": INSTRUCTION}))
        (draft / "README.md").write_text(_ABOUT)
    return out


def _record(place: int, one: Mapping[str, Any], where: Path) -> dict[str, Any]:
    """One question; its own options end with a number each."""
    try:
        answer = int(one["text_answer"])
        own = [int(str(option).split(" ")[-1]) for option in one["options"]]
        draw = random.Random(f"oodcv/{place}")
        others = draw.sample([number for number in range(len(_NUMBERS)) if number not in own], 4 - len(own))
        numbers = [*own, *others]
        draw.shuffle(numbers)
        options = [_NUMBERS[number] for number in numbers]
        return {
            "picture": one["image"],
            "question": one["question"],
            "options": options,
            "answer": numbers.index(answer),
        }
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise TaskError(f"{where}: question {place} of those that count is not as expected ({error!r})") from None


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("python -m smelt.tasks.questions.oodcv oodcv-vqa.json PICTURES OUT")
    try:
        write_oodcv(*map(Path, sys.argv[1:]))
    except SmeltError as error:
        sys.exit(f"smelt: {error}")
