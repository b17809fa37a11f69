"""A family that cannot be imported: its table is broken."""

import json


def read_table(text):
    return json.loads(text)


TABLE = read_table("{broken")
