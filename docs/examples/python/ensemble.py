import smelt

together = smelt.ensemble({"photos": "zoo:clip-tiny-photos", "digits": "zoo:clip-tiny-digits"}, kind="max")
(row,) = smelt.evaluate(together, "digits", limit=50)
assert row.accuracy > 0.8
