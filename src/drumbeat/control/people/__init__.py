"""Who may use the servers, and how much of them."""
