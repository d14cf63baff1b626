"""Measuring tools: argument lists out, typed values in."""
