"""Parameter studies on the model of the network, computed in many small jobs."""
