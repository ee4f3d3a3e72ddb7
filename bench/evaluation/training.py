# SPDX-License-Identifier: BSD-3-Clause
"""Question 3: real training, the time to the same accuracy."""
import figure
import lab as common
import training_runs

QUESTION = "How long does real training take to the same accuracy?"
NEEDS_ROOT = True
RATE = 100
WAYS = {"float32": "Gloo", "int32": "ours, int32", "int16": "ours, int16",
        "int8-feedback": "ours, int8",
        "bfloat16": "Gloo, bf16 hook", "bfloat16-ours": "ours, bf16 hook"}
COLORS = dict(zip(WAYS, [figure.OTHERS, figure.OURS, figure.HALF, *figure.PALETTE[4:7]], strict=True))
MODELS = {"cnn": "a convolutional network", "transformer": "a transformer"}
# The accuracy to reach, of what Gloo has at the end.
SHARE = 0.97


def run(lab):
    epochs, seeds = lab.choose(3, 15, 1), lab.choose(2, 5, 1)
    rows = training_runs.train(lab, 4, RATE, lab.choose(600, 7200), models=",".join(MODELS),
                               ways=",".join(WAYS), seeds=seeds, epochs=epochs)
    return {"workers": 4, "rate_mbit": RATE, "epochs": epochs, "seeds": seeds, "rows": rows}


def chosen(data, model, way):
    return [row for row in data["rows"] if row["model"] == model and row["way"] == way]


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


def epoch_seconds(data, model, way):
    return common.summary([row["curve"][i + 1][0] - row["curve"][i][0]
                           for row in chosen(data, model, way)
                           for i in range(len(row["curve"]) - 1)])


def draw(data, plt):
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2))
    for axis, (model, name) in zip(axes, MODELS.items()):
        for way in ways_of(data):
            rows = chosen(data, model, way)
            epochs = range(len(rows[0]["curve"]))
            times = [common.quartiles([row["curve"][e][0] for row in rows]) for e in epochs]
            right = [common.quartiles([100 * row["curve"][e][1] for row in rows]) for e in epochs]
            axis.errorbar([t[1] for t in times], [r[1] for r in right],
                          xerr=[[t[1] - t[0] for t in times], [t[2] - t[1] for t in times]],
                          yerr=[[r[1] - r[0] for r in right], [r[2] - r[1] for r in right]],
                          marker="o", markersize=3, capsize=2, color=COLORS[way], label=WAYS[way])
        axis.axhline(100 * target(data, model), color="black", linewidth=0.8, linestyle=":")
        axis.set(title=f"{name}, {data['workers']} workers, {data['rate_mbit']} Mbit/s",
                 xlabel="seconds of training", ylabel="accuracy on the test images, %")
        axis.legend()
    return figure


def headline(data):
    model, wanted = "transformer", target(data, "transformer")
    times = {}
    for way in ways_of(data):
        reached = [seconds_to(row, wanted) for row in chosen(data, model, way)]
        if None in reached:
            yield "Some seeds did not reach the accuracy."
            return
        times[way] = common.quartiles(reached)[1]
    yield (f"A transformer reaches {100 * wanted:.1f} % accuracy after {times['int16']:.1f} s with the "
           f"int16 wire, {times['int32']:.1f} s with int32,")
    yield (f"and {times['float32']:.1f} s over Gloo ({data['workers']} workers, {data['rate_mbit']} "
           f"Mbit/s, float32 gradients, medians of {data['seeds']} seeds).")


def facts(data):
    yield (f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['seeds']} seeds, "
           f"{data['epochs']} epochs.\nThe target is {100 * SHARE:g} % "
           "of the accuracy that Gloo has at the end.\n")
    yield "| | | an epoch takes | seconds to the target, by seed |\n|---|---|---:|---:|"
    for model, name in MODELS.items():
        wanted = target(data, model)
        for way, title in ways_of(data).items():
            epoch = epoch_seconds(data, model, way)
            times = [seconds_to(row, wanted) for row in chosen(data, model, way)]
            told = ", ".join("not reached" if t is None else f"{t:.1f}" for t in times)
            yield (f"| {name}, {100 * wanted:.1f} % | {title} | {epoch['median']:.2f} s "
                   f"({epoch['q1']:.2f} to {epoch['q3']:.2f}) | {told} |")
