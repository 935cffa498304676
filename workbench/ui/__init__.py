"""What a notebook adds: a cell of SQL on an open case."""
