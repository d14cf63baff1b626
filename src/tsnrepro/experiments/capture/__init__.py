"""Captures: frames on the wire, compared with the rules of FRER and with the counters."""
