# SPDX-License-Identifier: BSD-3-Clause
"""Question 3: real training, the time to the same accuracy."""
import figure
import lab as common
import training_runs
from training_runs import chosen

QUESTION = "How long does real training take to the same accuracy?"
RATE = 100
WAYS = {"float32": "Gloo", "int32": "ours, int32", "int16": "ours, int16",
        "int8-feedback": "ours, int8", "bfloat16": "Gloo, bf16 hook",
        "int32-stripes": "no switch, int32", "int16-stripes": "no switch, int16",
        "int8-stripes-feedback": "no switch, int8"}
COLORS = dict(zip([way for way in WAYS if "-stripes" not in way],
                  [figure.OTHERS, figure.OURS, figure.HALF, *figure.PALETTE[4:6]], strict=True))
MODELS = {"cnn": "a convolutional network", "transformer": "a transformer",
          "lm": "a language model", "embeddings": "an embedding model"}
MEASURES = {"cnn": "accuracy on the test images", "transformer": "accuracy on the test images",
            "lm": "next bytes that are right", "embeddings": "words that are right"}
# The accuracy to reach, of what Gloo has at the end.
SHARE = 0.97


def run(lab):
    epochs, seeds = lab.choose(15, 15, 1), lab.choose(2, 5, 1)
    rows = training_runs.train(lab, 4, RATE, lab.choose(3600, 7200), models=list(MODELS),
                               ways=list(WAYS), seeds=seeds, epochs=epochs)
    return {"workers": 4, "rate_mbit": RATE, "epochs": epochs, "seeds": seeds, "rows": rows}


def color(way):
    """A wire has the same one with and without a switch."""
    return COLORS[way.replace("-stripes", "")]


def target(data, model):
    return SHARE * common.quartiles([row["curve"][-1][1] for row in chosen(data, model, "float32")])[1]


def median_seconds(data, model, way):
    """Of all seeds, until the target; None: one did not reach it."""
    times = [next((seconds for seconds, right in row["curve"] if right >= target(data, model)), None)
             for row in chosen(data, model, way)]
    return None if None in times else common.quartiles(times)[1]


def epoch_seconds(rows):
    return common.quartiles([after[0] - before[0] for row in rows
                             for before, after in zip(row["curve"], row["curve"][1:])])


def beside_hook(data, model, way):
    hook, ours = (median_seconds(data, model, one) for one in ("bfloat16", way))
    return f"{hook / ours:.2f}" if hook and ours else "-"


def draw(data, plt):
    figure, panels = plt.subplots(2, 2, figsize=(9, 8))
    for axis, (model, name) in zip(panels.flat, MODELS.items()):
        for way, title in WAYS.items():
            epochs = list(zip(*[row["curve"] for row in chosen(data, model, way)]))
            common.line(axis, [common.quartiles([seconds for seconds, _ in epoch])[1] for epoch in epochs],
                        [common.quartiles([100 * right for _, right in epoch]) for epoch in epochs], errorevery=7,
                        linewidth=1, color=color(way), linestyle="--" if "-stripes" in way else "-", label=title)
        axis.axhline(100 * target(data, model), color="black", linewidth=0.8, linestyle=":")
        axis.set(title=f"{name}, {data['workers']} workers, {data['rate_mbit']} Mbit/s",
                 xlabel="seconds of training", ylabel=f"{MEASURES[model]}, %")
    panels[0][0].legend(fontsize=7)
    return figure


def headline(_about, data):
    """For a transformer, the two widths beside each other."""
    model = "transformer"
    yield (f"Seconds of training until a transformer is right in {100 * target(data, model):.1f} % of the tests "
           f"({data['workers']} workers,\nemulated links of {data['rate_mbit']} Mbit/s, medians of {data['seeds']} seeds; "
           "[all](docs/internals/paper.md#training)):\n")
    yield common.header("", "Gloo", "SwitchML")
    for width, pair in (("32 bits: Gloo's float32, our int32", ("float32", "int32")),
                        ("16 bits: PyTorch's bf16 hook, our int16", ("bfloat16", "int16"))):
        times = (median_seconds(data, model, way) for way in pair)
        yield common.row(width, *(f"{t:.1f}" if t else "not all seeds" for t in times))


def facts(data):
    yield (f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['seeds']} seeds, "
           f"{data['epochs']} epochs.\nThe target is {100 * SHARE:g} % of Gloo's accuracy at the end.\n"
           "*At the end*: accuracy in %, median, worst and best seed.\n")
    for model, name in MODELS.items():
        parameters = chosen(data, model, "float32")[0]["parameters"]
        yield common.header(f"{name}, {parameters} parameters", "an epoch, s",
                            f"seconds to {100 * target(data, model):.1f} %", "times Gloo", "at the end")
        base = median_seconds(data, model, "float32")
        for way, title in WAYS.items():
            rows, seconds = chosen(data, model, way), median_seconds(data, model, way)
            reached = ("not all seeds", "-") if seconds is None else (f"{seconds:.1f}", f"{base / seconds:.2f}")
            yield common.row(title, common.between(epoch_seconds(rows)), *reached, training_runs.at_the_end(rows))
        yield ""
    yield ("**At the same width**: how many times as fast as Gloo with the bf16 hook, in the order of the tables (- where a "
           "seed\ndid not reach the target).\n")
    for way, title in WAYS.items():
        if way not in ("float32", "bfloat16"):
            yield f"- {title}: {', '.join(beside_hook(data, model, way) for model in MODELS)}"
