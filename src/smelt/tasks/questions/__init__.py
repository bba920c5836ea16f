"""Question sets: a picture, a question and lettered options, for models that see and read.

task.py      a set: its questions.yaml, its records, its licence
records.py   one question: picture, text, options, answer; every faulty line named
pictures.py  a picture from a file, from a picture task, or several as a grid
prompt.py    the text of a question, with its options A, B, C, ...
tokens.py    that text in a model's chat template, as tokens; the tokens of the letters
rendered.py  those tokens, kept for the models that write and cut texts in the same way
features.py  what a vision tower sees, kept and shared by models with the same tower
ask.py       a part of a set put to a model: the scores of the letters, plain or perturbed
run.py       sets and a model in, results out
"""
