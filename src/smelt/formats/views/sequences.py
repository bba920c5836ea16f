"""Encoder-decoders and state-space models: names that older files have had.

    BART and its kin, Whisper   encoder.layers.0...  shared.weight      model.encoder.layers.0...  model.shared.weight
    Mamba                       backbone.embedding.weight               backbone.embeddings.weight

A bare model, and public files that were written from one, lack the beginning that the model with its head has.
"""

from __future__ import annotations

from smelt.formats.views.older_names import OlderNames
from smelt.formats.views.view import views

__all__: list[str] = []

views["encoder_decoder"] = OlderNames(
    ("bart", "blenderbot", "blenderbot-small", "m2m_100", "marian", "mbart", "pegasus", "plbart", "whisper"),
    {"encoder.": "model.encoder.", "decoder.": "model.decoder.", "shared.": "model.shared."},
)
views["mamba"] = OlderNames(
    ("mamba", "mamba2", "falcon_mamba"),
    {
        "backbone.embedding.": "backbone.embeddings.",
        "embeddings.": "backbone.embeddings.",
        "layers.": "backbone.layers.",
        "norm_f.": "backbone.norm_f.",
    },
)
