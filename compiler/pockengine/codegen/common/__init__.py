"""What every backend whose kernels are text shares: index maps, expressions, regions, operands, epilogues."""
