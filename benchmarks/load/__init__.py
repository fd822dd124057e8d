"""Load on a whole service: devices that enrol, beat, poll, run and stream, and people who submit and watch.

The devices are simulated in one process by an event loop; they speak the protocol of `docs/reference/api.md` over
connections of their own, as agents do, and keep a log of their own of every run that they finished.
"""
