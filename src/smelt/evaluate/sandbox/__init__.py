"""The sandbox: runs a program that a model wrote, in a process that can do little and is ended in time.

    outcome = run(code, seconds=5)       # Outcome(status, stdout, stderr, seconds)

It guards against accidents and careless programs: endless loops, memory, processes, files, the network. It is no jail
for a program written to break out of it; run such things on a machine that holds nothing.
"""

from __future__ import annotations

from smelt.evaluate.sandbox.run import Outcome, Status, run

__all__ = ["Outcome", "Status", "run"]
