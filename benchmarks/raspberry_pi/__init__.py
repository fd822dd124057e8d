"""What training would cost on a Raspberry Pi, estimated without one: instructions counted under emulation, and cycles
that a model of the processor gives them."""
