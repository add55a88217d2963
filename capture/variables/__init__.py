"""Variables: what the symbolic interpreter knows about Python values, one class per kind of value."""
