"""Run time-sensitive networking experiments again and print their papers again."""
