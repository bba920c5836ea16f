"""Advice: what a user has goes in; a method, the reasons, the rows it rests on and a whole recipe come out.

MergeBench's practical guideline as data (`rules.yaml`) and short code: `situation` reads what there is, `evidence` has
the paper's rows and ours, `choose` compares, `recipe` writes. Nothing is merged, evaluated or downloaded here. The room
is also the call: `smelt.advise(validation="llm5-val")` (docs/adr/0001).
"""
