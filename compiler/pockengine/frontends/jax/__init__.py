"""JAX -> Graph. Open `importer` first; the other modules are imported only where JAX is."""
