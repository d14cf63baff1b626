"""Testbeds: hosts, links and how commands reach them."""
