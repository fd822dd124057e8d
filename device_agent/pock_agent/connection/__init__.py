"""How the agent speaks with the service: requests, signed sessions, waiting after trouble. Open `service` first."""
