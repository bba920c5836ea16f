"""Which models of a hub to use for a task, why, and what they answer."""
