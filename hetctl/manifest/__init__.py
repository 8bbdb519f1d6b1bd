"""What the user declares: models, loader with source positions, references, schema export."""
