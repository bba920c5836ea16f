"""Public benchmarks of models of pictures and texts, `lmms:NAME`: tasks of lmms-eval, asked of any ImageText.

task.py           a task by its name in the library; the names that UQ-Merge reports
harness.py        the library, silent; its task objects, with their data
prompts.py        what a task asks as tokens: a chat with pictures, limits, stops
generate.py       answers in words, greedily, and the likelihood of given ones
harness_model.py  a Smelt model as lmms-eval sees it
scores.py         the score of one example
ask.py            a task and a model in, a result out

lmms-eval is loaded when a task is prepared. prompts.py and generate.py do without it.
"""
