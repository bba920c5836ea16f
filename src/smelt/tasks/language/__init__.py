"""Language tasks: folders with a YAML of the lm-evaluation-harness, run through its Python API on any Smelt model.

    task.py           a task: its YAML, its data, its prompts and answers
    library_task.py   the tasks of the harness's own library, `lm-eval:NAME`
    harness_model.py  a Smelt model as the harness sees it; likelihoods.py and greedy.py do its arithmetic
    ask.py            a task and a model in, a result out
    examples.py       prompts with their answers, for measuring and learning
    scoring/          functions that judge an answer

The harness is loaded when a task is prepared; listing tasks does without it.
"""
