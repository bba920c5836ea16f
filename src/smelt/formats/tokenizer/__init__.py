"""The tokenizer files of a model folder: vocabulary and chat template."""
