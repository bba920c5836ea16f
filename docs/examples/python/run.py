"""`smelt run` from Python: an outcome per job, with FusionBench's report in it."""

import smelt

(outcome,) = smelt.run(
    "method=simple_average", "modelpool=clip-tiny_TA8", "taskpool=clip-tiny_TA8", "taskpool.tasks=photos", "limit=20"
)

assert outcome.report["photos"].keys() == {"accuracy", "loss"}
assert outcome.report["average"]["accuracy"] == outcome.report["photos"]["accuracy"]
assert outcome.report["provenance"]["tasks"]["photos"]["n"] == 20
