"""The convolutional base by hand: what transformers' own dual encoder does, with the pooled output flattened."""

import torch
from transformers import VisionTextDualEncoderModel

import smelt_zoo

x = torch.rand(2, 3, 32, 32)  # pictures, as preprocessor_config.json says
model = VisionTextDualEncoderModel.from_pretrained(smelt_zoo.models()["clip-tiny-rn"]).float().eval()
features = model.visual_projection(model.vision_model(x).pooler_output.flatten(1))

assert features.shape == (2, 128)
