"""One self-contained HTML page a study: no request leaves it, and two renders of one sweep are the same bytes."""
