"""Every launcher on every engine: real training runs, and the table of what came of them."""
