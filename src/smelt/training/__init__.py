"""Fine-tuning: a base, tasks and a recipe in, an expert out (`finetune.py`). `loop.py` is the one training loop."""
