"""What Smelt finds around it: libraries and extras, processor and GPUs, caches, variables. It changes nothing."""
