"""What of a Ray cluster is the node's: a look whether it has Ray, a private folder with the token, the wait."""
