"""The CUDA backend: GPU-C kernels compiled ahead of time by NVRTC, and a program that replays them as graphs."""
