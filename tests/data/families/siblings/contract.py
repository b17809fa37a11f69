SCALE = 3


def generate(problem, rng):
    return {"x": SCALE * rng.random(problem.n)}
