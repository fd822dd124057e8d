"""The commands, a family of them a module. Each function is a command; its parameters are what a person may type."""
