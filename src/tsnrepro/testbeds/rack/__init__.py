"""The testbed of kind ``hardware``: hosts and switches of a rack, reached over SSH."""
