"""Running a plan: blocks of tensors through stages, eagerly in torch or by the vector machine on a CPU or GPU."""
