"""An expert from Python: the loss of every step, and what it was on examples that it did not learn from."""

import smelt

words = {"every": 1, "examples": 20}
done = smelt.finetune("zoo:clip-tiny", "digits", out="expert", steps=2, batch=4, lr=1e-4, validation=words)

assert len(done.losses) == 2
assert [look["step"] for look in done.note.validations] == [1, 2]
