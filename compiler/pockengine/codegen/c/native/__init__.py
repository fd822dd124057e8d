"""From C to machine code: the compiler, its cache of objects, executable and library."""
