"""The fused backend on a GPU: programs of the vector machine as generated kernels."""
