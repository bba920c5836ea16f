"""chrF of one answer: 1 for the reference itself, 0 where no letters are shared, between them for a part."""

from __future__ import annotations

import pytest

pytest.importorskip("sacrebleu")

from smelt.tasks.language.scoring.translation import score

DOC = {"prompt": "Translate into German: Press the button.", "answer": "Drücken Sie die Taste."}


def test_the_reference_itself_scores_one_with_or_without_spaces_around_it() -> None:
    assert score(DOC, ["Drücken Sie die Taste."]) == {"chrf": pytest.approx(1.0)}
    assert score(DOC, ["\nDrücken Sie die Taste. "]) == {"chrf": pytest.approx(1.0)}


def test_nothing_in_common_and_no_answer_score_zero() -> None:
    assert score(DOC, ["xyzw"]) == {"chrf": 0.0}
    assert score(DOC, [""]) == {"chrf": 0.0}


def test_a_nearer_answer_scores_higher() -> None:
    near, far = score(DOC, ["Drücken Sie die Tasten."])["chrf"], score(DOC, ["Press the button."])["chrf"]
    assert 1 > near > 0.8 > far > 0
