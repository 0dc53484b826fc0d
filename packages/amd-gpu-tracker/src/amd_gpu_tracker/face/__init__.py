"""The tracker by the names that programs and commands use: `Tracker`, and what it offers."""
