"""Looks at everything that the service needs, changes nothing, and says what to fix."""

from pock_server.doctor.findings import Finding, Outcome
from pock_server.doctor.round import examine

__all__ = ["Finding", "Outcome", "examine"]
