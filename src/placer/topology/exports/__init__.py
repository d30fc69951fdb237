"""Fabrics in the words of Kubernetes schedulers: structs and YAML text, no client."""
