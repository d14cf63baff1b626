"""The software bridge: its sources, how they are built, told what to do, and what they counted."""
