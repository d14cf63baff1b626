"""From results to pages: values as LaTeX macros, provenance, generated tables, the report."""
