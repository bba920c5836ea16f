"""Diffusion models: folders of diffusers, single files, block weights."""
