"""Models of transformers' AutoModelForSequenceClassification: classifiers, reward models, and cross-encoders.

The three are stored alike. A cross-encoder is one that is asked about two texts at once and has one label; what
sentence-transformers adds to its folder (`modules.json`, settings) changes no score before the last function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from smelt.errors import RecipeError, shortened
from smelt.files.reading import find_json_table
from smelt.formats.sentence_transformers.settings import SETTINGS
from smelt.models.families.causal_lm.tokenizer import check_vocabulary, no_tokenizer, read_tokenizer, tokenizer_place
from smelt.models.families.empty_model import empty_sequence_classifier
from smelt.models.families.family import Family, families
from smelt.models.families.load_weights import load_weights
from smelt.models.families.model_input import ModelInput, known_config
from smelt.models.families.sequence_classifier.model import CrossEncoder, TextClassifier

__all__ = ["CROSS_ENCODER", "SEQUENCE_CLASSIFIER", "CrossEncoderFamily", "SequenceClassifierFamily"]

_HEAD = "ForSequenceClassification"


class SequenceClassifierFamily(Family):
    """How classifiers of texts are known and loaded."""

    name = "sequence_classifier"
    model_kinds = frozenset({"text_classifier"})
    loaded_type: ClassVar[type[Any] | None] = TextClassifier

    def recognises(self, model: ModelInput) -> bool:
        named = (model.config or {}).get("architectures")
        return isinstance(named, list) and any(str(one).endswith(_HEAD) for one in named)

    def assemble(self, given: ModelInput, text: ModelInput, device: str, dtype: str) -> Any:
        """A classifier; `text` gives the config and the tokenizer where `given` has none."""
        import torch

        for one in (given, text):
            one.config = one.config or one.config_in_file
        config = known_config(given, text)
        _check_head(config, given.label)
        folder = given.folder if given.config else text.folder
        module = empty_sequence_classifier(config, given.label, folder)
        digest = load_weights(module, given, device, getattr(torch, dtype)).hash
        module = module.requires_grad_(False).eval().to(device)
        place = tokenizer_place(given) or tokenizer_place(text)
        if place is None:
            raise no_tokenizer(given.label)
        tokenizer = read_tokenizer(*place)
        check_vocabulary(given.label, module, tokenizer)
        return TextClassifier(given.label, module, tokenizer, dict(config), device, dtype, digest, place[0])


def _check_head(config: Mapping[str, Any], label: str) -> None:
    """Refuse a model that says it is another: its hundred missing tensors would not tell what is the matter."""
    named = config.get("architectures")
    if isinstance(named, list) and named and not any(str(one).endswith(_HEAD) for one in named):
        raise RecipeError(
            f"{label}: is a {shortened(str(named[0]))} by its config.json, and the tasks ask for a classifier of texts "
            f"(...{_HEAD})"
        )


class CrossEncoderFamily(SequenceClassifierFamily):
    """The same where two texts are compared."""

    name = "cross_encoder"
    model_kinds = frozenset({"text_matcher"})
    loaded_type = CrossEncoder

    def assemble(self, given: ModelInput, text: ModelInput, device: str, dtype: str) -> CrossEncoder:
        settings = find_json_table(given.folder / SETTINGS) if given.folder is not None else None
        if settings and settings.get("default_prompt_name") is not None:
            raise RecipeError(
                f"{given.label}: {SETTINGS} puts a prompt ({settings['default_prompt_name']!r}) before every pair, "
                "which Smelt does not do for cross-encoders"
            )
        found: TextClassifier = super().assemble(given, text, device, dtype)
        if len(found.labels) != 1:
            raise RecipeError(
                f"{given.label}: gives a pair {len(found.labels)} scores ({', '.join(found.labels[:8])}), "
                "so it does not say how well two texts match; put a task of classes to it"
            )
        return CrossEncoder(found)


SEQUENCE_CLASSIFIER = SequenceClassifierFamily()
families[SEQUENCE_CLASSIFIER.name] = SEQUENCE_CLASSIFIER
CROSS_ENCODER = CrossEncoderFamily()
families[CROSS_ENCODER.name] = CROSS_ENCODER
