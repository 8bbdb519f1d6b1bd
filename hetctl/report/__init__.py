"""Text and JSON: the only place that formats for people and programs."""
