"""One model on one task: rows come back, each with its interval and everything that made it."""

import smelt

(row,) = smelt.evaluate("zoo:clip-tiny-photos", tasks="photos", limit=100)

assert row.n == 100
assert row.low < row.accuracy < row.high
assert row.task_version == 1
