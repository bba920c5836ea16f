"""FusionBench's command lines and configs, run as they are."""
