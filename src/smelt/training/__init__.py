"""Fine-tuning: a base, tasks and a recipe in, an expert's folder out (`finetune.py`). `loop.py` is the one training loop."""
