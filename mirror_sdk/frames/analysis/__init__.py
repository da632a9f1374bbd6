"""Analysis over time of a history or events table: statistics, durations, availability, rates and gaps."""
