"""The OpenCL backend: GPU-C kernels, compiled on the device, and a program that starts them."""
