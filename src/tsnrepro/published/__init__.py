"""The published numbers and claims, and their audit against measured results."""
