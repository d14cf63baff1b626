"""The generated parts of papers, their HTML pages, submissions and differences."""
