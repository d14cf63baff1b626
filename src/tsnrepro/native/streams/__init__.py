"""Our own talker and listener: paced datagrams that carry their number and their send time."""
