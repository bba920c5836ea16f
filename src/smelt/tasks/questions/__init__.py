"""Question sets: a picture, a question and lettered options, for models that see and read.

task.py           a set: its questions.yaml, its records, its licence
records.py        one question: picture, text, options, answer; every faulty line named; its text as a prompt
pictures.py       a picture from a file, from a picture task, or several as a grid
prompts.py        that text in a model's chat template, as tokens, kept for models that write them in the same way
feature_cache.py  what a vision tower sees, kept and shared by models with the same tower
option_scores.py  a part of a set put to a model: the scores of the letters, plain or perturbed
ask.py            a set and a model in, a result out
"""
