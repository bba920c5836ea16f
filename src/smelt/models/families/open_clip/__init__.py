"""Models of the library open_clip: residual networks, ConvNeXt, EVA, CoCa, SigLIP and other text towers."""
