"""Stethoscope: the terminal console for the engineer on call for a GPU training cluster."""

__version__ = "0.1.0"
