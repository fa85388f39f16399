"""HTTP: the API for people's programs, the agents' protocol, live streams. Knows the control room's door, no store."""
