"""What runs beside a node's ranks for people: services and sessions, and the tunnels that lead to them."""
