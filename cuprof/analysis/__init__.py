"""From the store to tables, series and conclusions: typed rows and frozen dataclasses, no devices, no HTML."""
