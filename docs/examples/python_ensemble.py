import smelt

together = smelt.ensemble({"photos": "zoo:clip-tiny-photos", "digits": "zoo:clip-tiny-digits"}, kind="max")
(row,) = smelt.evaluate(together, "digits", limit=20)
print(f"{row.label}: {row.accuracy:.0%}")
