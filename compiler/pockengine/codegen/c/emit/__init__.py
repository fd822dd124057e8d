"""What a model's C file is made of beside its kernels: the tables, and functions of numbers."""
