"""Clusters under simulation: whole nodes, a network between them, and what goes wrong."""
