"""Kinds of resources: what the manifest wants of a node, how it is observed, compared, made and proved."""
