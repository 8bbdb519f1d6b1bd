"""What is known about llama.cpp and hardware, as data with a source for each row, and its queries.

The rows lie in `data/`. Code asks; it holds no build numbers, flags or limits of its own.
"""
