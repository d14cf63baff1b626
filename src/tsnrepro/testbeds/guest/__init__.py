"""The guest testbed: hosts inside a qemu guest whose kernel has the queueing disciplines."""
