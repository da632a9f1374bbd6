"""Questions about time, asked of a history or events table: what held, for how long, and what is not known."""
