"""Language tasks put to a model behind a URL: the same requests as to a model in memory, over HTTP.

`needs.py` says before anything is asked what a server lacks for a task, `harness_model.py` is the model as the harness
sees it, `scoring.py` gets log-likelihoods of continuations, `prompts.py` writes and cuts prompts, `at_once.py` keeps
several requests under way.
"""
