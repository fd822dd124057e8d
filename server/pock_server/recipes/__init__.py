"""Recipes that have names: what a build trains, and how."""
