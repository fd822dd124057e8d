"""The emulated backend: GPU-C kernels as C, run on a processor thread by thread, to test them without a GPU."""
