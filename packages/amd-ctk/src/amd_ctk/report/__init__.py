"""Who used what: the history of reservations summed up for people, programs and a browser."""
