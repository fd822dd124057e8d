"""What this agent understands beyond the first manifests, by name.

The device's facts tell these names, and a service puts what belongs to one into a manifest only where it was told: an
agent refuses fields that it does not know. A name that was given out keeps its meaning.
"""

from __future__ import annotations

FEATURES = (
    "updates",  # offers of other versions, `GET /agent/update`
    "repeats",
    "weights-delta",  # `run.weights_form`: trained weights go back as what changed
    "initial-weights",  # `data.weights`: weights to begin with
    "local-data",  # `data.train` and `data.eval` may name data of this device
    "held-out",  # `run.held_out`: a share of the data is evaluated instead of trained on
    "profile",  # `run.profile`: each kernel is timed
    "policies",  # heartbeats bring signed policies, and tell why the device rests; jobs pause
)
