"""Bytes to and from a node."""
