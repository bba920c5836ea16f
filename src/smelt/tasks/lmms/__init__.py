"""Public benchmarks of models of pictures and texts, `lmms:NAME`: tasks of lmms-eval, asked of any ImageText.

task.py      a task by its name in the library; the names that UQ-Merge reports
library.py   the library, silent; its task objects, with their data
words.py     what a task asks as tokens: a chat with pictures, limits, stops
write.py     answers in words, greedily, and the likelihood of given ones
model.py     a Smelt model as lmms-eval sees it
scores.py    the score of one example
run.py       tasks and a model in, results out

lmms-eval is loaded when a task is prepared. words.py and write.py do without it.
"""
