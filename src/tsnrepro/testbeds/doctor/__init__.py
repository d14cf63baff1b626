"""``tsnrepro doctor``: checks of a rack's or NIC pair's hosts; each finding has a remedy."""
