"""What a node reports about itself, as typed values; the parsers are pure."""
