"""Packet-level model of a time-sensitive network: hosts, switches and links as compiled queues."""
