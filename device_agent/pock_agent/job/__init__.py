"""One job, from the moment it is accepted until the service has its result. Open `worker` first, then `states`."""
