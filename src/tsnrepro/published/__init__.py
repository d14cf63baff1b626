"""Hold published and measured numbers against each other and against what is possible."""
