# SPDX-License-Identifier: BSD-3-Clause
"""Question 3: real training, the time to the same accuracy."""
import performance
import replay
from table import Table, between, median, quartiles

QUESTION = "How long does real training take to the same accuracy?"
RATE, N_WORKERS = 100, 4
WAYS = {"float32": "Gloo", "int32": "ours, int32", "int16": "ours, int16",
        "int8-feedback": "ours, int8", "bfloat16": "Gloo, bf16 hook",
        "int32-stripes": "no switch, int32", "int16-stripes": "no switch, int16",
        "int8-stripes-feedback": "no switch, int8"}
MODELS = {"cnn": "a convolutional network", "transformer": "a transformer",
          "lm": "a language model", "embeddings": "an embedding model"}
# The accuracy to reach, of what Gloo has at the end.
SHARE = 0.97


def run(lab):
    epochs, seeds = lab.choose(15, 15, 1), lab.choose(2, 5, 1)
    rows = replay.on_links(lab, "train_rank.py", N_WORKERS, RATE, lab.choose(3600, 7200), models=list(MODELS),
                           ways=list(WAYS), seeds=seeds, epochs=epochs)
    return {"workers": N_WORKERS, "rate_mbit": RATE, "epochs": epochs, "seeds": seeds, "rows": rows}


def chosen(data, model, way):
    return [row for row in data["rows"] if row["model"] == model and row["way"] == way]


def at_the_end(data, model, way):
    """Accuracies of all seeds."""
    return [row["curve"][-1][1] for row in chosen(data, model, way)]


def target(data, model):
    return SHARE * median(at_the_end(data, model, "float32"))


def seconds(data, model, way):
    """The median of all seeds, until the target; None: one did not reach it."""
    times = [next((time for time, right in row["curve"] if right >= target(data, model)), None)
             for row in chosen(data, model, way)]
    return None if None in times else median(times)


def speed(data, model, way, other):
    """Relative to another way; None: one of them did not reach the target."""
    mine, others = (seconds(data, model, one) for one in (way, other))
    return others / mine if mine and others else None


def headline(_about, data):
    """For a transformer, the two widths beside each other."""
    model = "transformer"
    yield (f"Seconds of training until a transformer is right in {100 * target(data, model):.1f} % of the tests "
           f"({data['workers']} workers,\nemulated links of {data['rate_mbit']} Mbit/s, medians of {data['seeds']} seeds; "
           "[all](docs/internals/paper.md#training)):\n")
    table = Table("", "Gloo", "SwitchML", digits=1, missing="not all seeds")
    for width, pair in (("32 bits: Gloo's float32, our int32", ("float32", "int32")),
                        ("16 bits: PyTorch's bf16 hook, our int16", ("bfloat16", "int16"))):
        table.add(width, *(seconds(data, model, way) for way in pair))
    yield from table.lines()


def facts(data):
    yield (f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['seeds']} seeds, "
           f"{data['epochs']} epochs.\nThe target is {100 * SHARE:g} % of Gloo's accuracy at the end.\n"
           "*At the end*: accuracy in %, median, worst and best seed.\n")
    for model, name in MODELS.items():
        table = Table(f"{name}, {chosen(data, model, 'float32')[0]['parameters']} parameters", "an epoch, s",
                      f"seconds to {100 * target(data, model):.1f} %", "times Gloo", "at the end", missing="-",
                      what="speed to the same accuracy, Gloo = 1", color=performance.color)
        for way, title in WAYS.items():
            epochs = [after[0] - before[0] for row in chosen(data, model, way)
                      for before, after in zip(row["curve"], row["curve"][1:])]
            needed, right = seconds(data, model, way), [100 * share for share in at_the_end(data, model, way)]
            table.add(title, between(quartiles(epochs)), "not all seeds" if needed is None else f"{needed:.1f}",
                      speed(data, model, way, "float32"), between([min(right), median(right), max(right)], 1))
        yield table
        yield ""
    yield ("**At the same width**: how many times as fast as Gloo with the bf16 hook, in the order of the tables (- where a "
           "seed\ndid not reach the target).\n")
    for way, title in WAYS.items():
        if way not in ("float32", "bfloat16"):
            yield f"- {title}: {', '.join(table.text(speed(data, model, way, 'bfloat16')) for model in MODELS)}"
