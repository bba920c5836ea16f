"""Language tasks: folders with a YAML of the lm-evaluation-harness, run through its Python API on any Smelt model.

    task.py      a task: its YAML, its data, its prompts and answers
    library.py   the tasks of the harness's own library, `lm-eval:NAME`
    model.py     a Smelt model as the harness sees it; packed.py and greedy.py do its arithmetic
    run.py       tasks and a model in, results out
    scoring/     functions that judge an answer

The harness is loaded when a task is run; listing tasks does without it.
"""
