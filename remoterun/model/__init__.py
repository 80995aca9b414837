"""Frozen values that pass between the parts; they know nothing of how they are read or shown."""
