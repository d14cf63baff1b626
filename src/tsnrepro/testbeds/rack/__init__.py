"""The testbed of kind ``rack``: hosts and switches of a rack, reached over SSH."""
