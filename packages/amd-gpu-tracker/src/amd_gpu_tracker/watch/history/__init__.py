"""Past use of GPUs: reading the lines of `book.history`, and sampling how busy GPUs are."""
