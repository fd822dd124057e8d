"""A choice as the recipe that a person would write: few rules, and comments that say what it costs."""

from .rules import few_patterns, few_rules
from .text import recipe_text

__all__ = ["few_patterns", "few_rules", "recipe_text"]
