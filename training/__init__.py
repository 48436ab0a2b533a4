"""Makes the weights of the ``mini`` bundle from CC0 heads and synthetic speech. Not installed with the product."""
