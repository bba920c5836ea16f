"""Runs inside mergekit's own environment: one merge per line of JSON on stdin, one answer per line on stdout.

mergekit takes seconds to start; this way it starts once for the whole suite. Only its public entry points are used.
"""

from __future__ import annotations

import json
import logging
import os
import sys


def main() -> None:
    # whatever mergekit and its libraries print goes to stderr; the answers have the real stdout to themselves
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    logging.disable(logging.ERROR)
    answers.write(json.dumps({"ready": True}) + "\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            options = MergeOptions(quiet=True, write_model_card=False, **request["options"])
            run_merge(MergeConfiguration.model_validate(request["config"]), request["out"], options)
            answer = {"error": None}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
