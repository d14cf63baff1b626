"""Parameter studies on the model of the network: many points, one small job for some of them."""
