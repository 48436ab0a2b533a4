"""The official Ditto release: fetching, checking and converting it, its auxiliary networks, and its old pickles."""
