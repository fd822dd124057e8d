"""Work for devices: leases, progress, reports."""
