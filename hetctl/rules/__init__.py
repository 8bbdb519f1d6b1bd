"""Findings: what manifest, facts and catalogue say together."""
