"""Advice: what a user has goes in; a method, the reasons, the rows it rests on and a whole recipe come out.

MergeBench's practical guideline is data (`rules.yaml`), and so are the numbers of our own run (`evidence.yaml`).
Nothing is merged, evaluated or downloaded here.
"""
