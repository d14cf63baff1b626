"""Hosts of testbeds: commands over SSH, facts, clocks, leases and rollback."""
