"""A node's part in a Ray cluster: the check for Ray, a private folder with the token, and the wait."""
