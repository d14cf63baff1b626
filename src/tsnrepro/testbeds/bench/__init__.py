"""The testbed of kind ``bench``: ports of this machine, with any device between them."""
