"""What kernels for NVIDIA's Hopper GPUs have in common: units that read shared memory by themselves, an engine that
copies to it."""
