# SPDX-License-Identifier: BSD-3-Clause
"""Question 3: real training, the time to the same accuracy."""
import figure
import lab as common
import training_runs

QUESTION = "How long does real training take to the same accuracy?"
ONLY_DRAWN = ("gradients",)  # of integers.py, which starts the same program
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
    rows = training_runs.train(lab, 4, RATE, lab.choose(3600, 7200), models=",".join(MODELS),
                               ways=",".join(WAYS), seeds=seeds, epochs=epochs)
    return {"workers": 4, "rate_mbit": RATE, "epochs": epochs, "seeds": seeds, "rows": rows}


def chosen(data, model, way):
    return [row for row in data["rows"] if row["model"] == model and row["way"] == way]


def color(way):
    """A wire has the same one with and without a switch."""
    return COLORS[way.replace("-stripes", "")]


def ways_of(data):
    """Of WAYS, those that this run has measured."""
    measured = {row["way"] for row in data["rows"]}
    return {way: title for way, title in WAYS.items() if way in measured}


def target(data, model):
    return SHARE * common.quartiles([row["curve"][-1][1]
                                     for row in chosen(data, model, "float32")])[1]


def seconds_to(row, accuracy):
    """Seconds of training after which the accuracy was reached, or None."""
    return next((seconds for seconds, reached in row["curve"] if reached >= accuracy), None)


def median_seconds(data, model, way, accuracy):
    """Of all seeds; None: one has not reached the accuracy."""
    times = [seconds_to(row, accuracy) for row in chosen(data, model, way)]
    return None if None in times else common.quartiles(times)[1]


def epoch_seconds(data, model, way):
    return common.summary([row["curve"][i + 1][0] - row["curve"][i][0]
                           for row in chosen(data, model, way)
                           for i in range(len(row["curve"]) - 1)])


def beside_hook(data, model, way):
    hook, ours = (median_seconds(data, model, one, target(data, model)) for one in ("bfloat16", way))
    return f"{hook / ours:.2f}" if hook and ours else "-"


def draw(data, plt):
    figure, panels = plt.subplots(2, 2, figsize=(9, 8))
    for axis, (model, name) in zip(panels.flat, MODELS.items()):
        for way, title in ways_of(data).items():
            rows = chosen(data, model, way)
            epochs = range(len(rows[0]["curve"]))
            times = [common.quartiles([row["curve"][e][0] for row in rows]) for e in epochs]
            right = [common.quartiles([100 * row["curve"][e][1] for row in rows]) for e in epochs]
            axis.errorbar([t[1] for t in times], [r[1] for r in right],
                          yerr=[[r[1] - r[0] for r in right], [r[2] - r[1] for r in right]],
                          errorevery=7, linewidth=1, capsize=2, color=color(way),
                          linestyle="--" if "-stripes" in way else "-", label=title)
        axis.axhline(100 * target(data, model), color="black", linewidth=0.8, linestyle=":")
        axis.set(title=f"{name}, {data['workers']} workers, {data['rate_mbit']} Mbit/s",
                 xlabel="seconds of training", ylabel=f"{MEASURES[model]}, %")
    panels[0][0].legend(fontsize=7)
    return figure


def headline(data):
    """For a transformer, the two widths beside each other."""
    model, wanted = "transformer", target(data, "transformer")
    yield (f"Seconds of training until a transformer is right in {100 * wanted:.1f} % of the tests "
           f"({data['workers']} workers,\nemulated links of {data['rate_mbit']} Mbit/s, medians of {data['seeds']} seeds; "
           "[all](docs/internals/paper.md#training)):\n")
    yield "| | Gloo | SwitchML |\n|---|---:|---:|"
    for width, pair in (("32 bits: Gloo's float32, our int32", ("float32", "int32")),
                        ("16 bits: PyTorch's bf16 hook, our int16", ("bfloat16", "int16"))):
        times = (median_seconds(data, model, way, wanted) for way in pair)
        yield f"| {width} | " + " | ".join(f"{t:.1f}" if t else "not all seeds" for t in times) + " |"


def facts(data):
    yield (f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['seeds']} seeds, "
           f"{data['epochs']} epochs.\nThe target is {100 * SHARE:g} % "
           "of Gloo's accuracy at the end.")
    yield "*At the end*: accuracy in %, median, worst and best seed.\n"
    for model, name in MODELS.items():
        wanted = target(data, model)
        parameters = chosen(data, model, "float32")[0]["parameters"]
        yield f"| {name}, {parameters} parameters | an epoch, s | seconds to {100 * wanted:.1f} % | " \
              "times Gloo | at the end |"
        yield "|---|---:|---:|---:|---:|"
        base = median_seconds(data, model, "float32", wanted)
        for way, title in ways_of(data).items():
            epoch = epoch_seconds(data, model, way)
            seconds = median_seconds(data, model, way, wanted)
            ends = [100 * row["curve"][-1][1] for row in chosen(data, model, way)]
            yield (f"| {title} | {epoch['median']:.2f} ({epoch['q1']:.2f}–{epoch['q3']:.2f}) | "
                   + ("not all seeds | - |" if seconds is None else
                      f"{seconds:.1f} | {base / seconds:.2f} |")
                   + f" {common.quartiles(ends)[1]:.1f} ({min(ends):.1f}–{max(ends):.1f}) |")
        yield ""
    yield ("**At the same width**: how many times as fast as Gloo with the bf16 hook, in the order of the tables (- where a "
           "seed\ndid not reach the target).\n")
    for way, title in ways_of(data).items():
        if way not in ("float32", "bfloat16"):
            yield f"- {title}: {', '.join(beside_hook(data, model, way) for model in MODELS)}"
