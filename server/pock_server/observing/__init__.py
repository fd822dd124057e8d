"""What the service says about itself while it works: log lines, metrics, spans. Knows no domain."""
