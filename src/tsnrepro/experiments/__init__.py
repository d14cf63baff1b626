"""Experiments: lists of trials over factors, and how one trial is measured."""
