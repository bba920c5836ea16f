"""The optimiser loop that learners and mixers share: the order of examples, losses, state on disk."""
