"""The fleet: enrolment, sessions, heartbeats."""
