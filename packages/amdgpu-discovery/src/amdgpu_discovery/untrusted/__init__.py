"""Reads what another user may have written: bounded, without following surprises, and printable."""
