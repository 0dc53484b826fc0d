"""Reports of past GPU use: the history of reservations, summed up for people, programs and a browser."""
