"""The software bridge: how its C programs are built, told what to do, and what they counted."""
