"""Analysis of a history or events table over time: statistics, durations, availability, rates and gaps."""
