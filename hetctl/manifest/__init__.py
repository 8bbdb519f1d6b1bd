"""What the user declares: models, loader with source positions, references, schema export."""

from hetctl.manifest.cluster import Cluster
from hetctl.manifest.loader import load, load_text

__all__ = ["Cluster", "load", "load_text"]
