"""The analyses are functions that give plain data."""

from smelt.analyse import cosine_similarity

found = cosine_similarity("pool.yaml", "vision_model.*")

assert found.names == ("photos", "digits")
assert abs(found.matrix[0][1]) < 0.05  # nearly at right angles
