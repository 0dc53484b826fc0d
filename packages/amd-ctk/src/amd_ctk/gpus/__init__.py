"""GPUs of a host, as lists, tables, pages and facts for scripts."""
