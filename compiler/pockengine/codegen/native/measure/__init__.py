"""Programs of candidates: what each computes, and how long it takes, here or on a device."""
