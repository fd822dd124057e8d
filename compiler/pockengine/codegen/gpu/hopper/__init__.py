"""What kernels for NVIDIA's Hopper GPUs have in common: matrix units and an engine that copies tiles for them."""
