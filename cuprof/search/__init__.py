"""Strategies that look for the best of many configurations by asking for few; they know no device and no store."""
