"""What every request passes before anything is done for it: rate limits, the credential, then its body."""
