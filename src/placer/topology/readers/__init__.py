"""Text or XML of one tool -> `types.NodeTopology`. Every reader is total: a topology or a ParseError."""
