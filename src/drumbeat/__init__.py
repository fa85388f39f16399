"""drumbeat."""
