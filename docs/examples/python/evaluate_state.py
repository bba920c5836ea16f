"""A merged state dict is evaluated where it is; `text_from` gives the text tower, the tokenizer and the config."""

import smelt

merged = smelt.merge(
    ["zoo:clip-tiny-photos", "zoo:clip-tiny-digits"], base="zoo:clip-tiny", method="ties", include=["vision_model.*"]
)
rows = smelt.evaluate(merged, tasks=["photos", "digits"], text_from="zoo:clip-tiny", limit=50)

assert [row.task for row in rows] == ["photos", "digits"]
