"""A program in C for a device: the runtime, the model's tables, the compiler and linker, and what runs it here."""
