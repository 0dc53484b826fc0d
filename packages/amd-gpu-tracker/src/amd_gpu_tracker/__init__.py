"""Who is using which GPU: shared and exclusive reservations that heal themselves."""
