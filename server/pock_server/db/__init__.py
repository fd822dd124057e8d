"""Tables' common ground, the engine, and the unit of work; knows no domain."""
