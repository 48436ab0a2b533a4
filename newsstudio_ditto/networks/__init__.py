"""The seven networks, and the bundles of weights that they are loaded from."""
