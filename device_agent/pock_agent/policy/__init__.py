"""What this device may do when: the owner's rules, the service's, and what was used up today. Open `keeper` first."""
