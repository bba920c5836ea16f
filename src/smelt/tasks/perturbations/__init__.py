"""Perturbation: a picture, a prompt and a model in, slightly other ones out, so that their answers can be compared.

Three kinds, each on or off: the picture (AugMix), the text (one of nine prompts in front), the model (dropout on its
attention). What is drawn belongs to a place (task, sample, pass) and to nothing else, so all models see the same
perturbations, whatever the batch. Knows nothing of models' families and of what is done with the answers.

    how = Perturbation(passes=4)
    seed = how.seed_of("objects/test", sample=17, number=2)
    how.picture(pixels, seed), how.prefix(seed)
    with attention_dropout(module, how.rate, seeds): ...
"""
