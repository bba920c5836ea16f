"""Words of other tools: FusionBench's command lines and configs."""
