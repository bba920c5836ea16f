"""The optimiser loop that learners and mixers share: picks of examples, losses, state on disk."""
