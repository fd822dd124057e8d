"""A whole fleet for a long time: everything that can break does, in any order, and nobody is called."""
