"""What every backend whose kernels are text shares: dialects, expressions, index maps, regions."""
