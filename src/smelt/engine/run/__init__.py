"""Running a plan: blocks of tensors through stages, eagerly in torch or fused on a CPU or GPU."""
