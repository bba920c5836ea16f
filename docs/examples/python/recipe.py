"""A recipe file from Python, with a word of it changed; then a recipe as data."""

import smelt

report = smelt.plan("first.yaml", dtype="float32")
assert report.stages == ["dare", "ties"]
assert set(report.dtypes) == {"F32", "I64"}

recipe = smelt.Recipe.parse({"pool": {"models": ["cars", "birds"]}, "merge": "average"})
assert smelt.Recipe.parse(recipe.dump()) == recipe
smelt.merge(recipe, out="mean")
