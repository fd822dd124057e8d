"""Schedules: campaigns and benchmarks that are asked for again and again, at the times of a cron expression."""
