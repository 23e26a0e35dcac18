"""The graph: nodes, storages, versions."""
