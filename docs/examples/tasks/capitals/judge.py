"""Is the capital named anywhere in the answer?"""


def score(doc, results):
    """`doc` is a line of the data, `results` what the model wrote; scores lie between 0 and 1."""
    return {"right": float(doc["answer"].lower() in results[0].lower())}
