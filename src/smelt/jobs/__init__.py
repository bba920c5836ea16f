"""Jobs: pure pieces of work in, results out, each computed once, wherever there is a machine for it.

A job is a function by its name and plain arguments. Its result is found by what it is (`store`), so a second run
computes nothing; it is made by an executor (`inline`, `local`, `ray`, `slurm`, or one's own). A worker that dies costs
its job, not the run. This room knows nothing of models: suites, studies and measurements bring their own functions.
"""
