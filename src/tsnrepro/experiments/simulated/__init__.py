"""What experiments simulate on networks that no other testbed has."""
