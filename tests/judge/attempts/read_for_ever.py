"""Never come to an end while the file is read."""

while True:
    pass
