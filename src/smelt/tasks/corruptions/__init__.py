"""Corruptions: pictures in, worse pictures out. Seven kinds, five severities, two published sets of numbers.

Bytes [n, height, width, 3] come in and go out, of any size. The randomness of a picture belongs to its place (task,
split, index), so a part of a split, another batch size or more threads give the same pixels. Knows nothing of models.

    corrupt(pictures, "motion_blur", 3, indices=range(len(pictures)), place="photos/test")
    Corruption.parse("motion_blur@3").apply(pictures, indices, "photos/test")
"""
