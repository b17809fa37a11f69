"""State a kind of variant that no database can store, while the file is read."""

import dataclasses
import sys

frame = sys._getframe()
while frame is not None and frame.f_code.co_name != "outline":
    frame = frame.f_back
if frame is not None:
    encode = frame.f_globals["encode"]

    def encode_otherwise(outlined):
        trials = tuple(dataclasses.replace(each, kind="\ud800") for each in outlined.trials)
        return encode(dataclasses.replace(outlined, trials=trials))

    frame.f_globals["encode"] = encode_otherwise


@family.cpu("half_a_character")
def half_a_character(problem, tune, inputs, outputs):
    return lambda: right(inputs, outputs)
