# SPDX-License-Identifier: BSD-3-Clause
"""Question 5: does training suffer from integers?"""
import lab as common
import training_runs

QUESTION = "Does training with sums of integers reach the accuracy of float32?"
ONLY_DRAWN = ("gradients",)
WAYS = {"float32": "float32 (Gloo)", "int32": "int32 wire", "int16": "int16 wire",
        "int16-feedback": "int16, error feedback", "fixed-8": "one factor, 2^8",
        "fixed-20": "one factor, 2^20", "fixed-38": "one factor, 2^38"}
MODELS = {"cnn": "a convolutional network", "transformer": "a transformer"}


def run(lab):
    epochs, seeds = lab.choose(2, 30, 1), lab.choose(2, 5, 1)
    rows = training_runs.train(lab, 4, 0, lab.choose(600, 7200), models=",".join(MODELS),
                               ways=",".join(WAYS), seeds=seeds, epochs=epochs)
    return {"workers": 4, "epochs": epochs, "seeds": seeds, "rows": rows}


def chosen(data, model, way):
    return [row for row in data["rows"] if row["model"] == model and row["way"] == way]


def last(data, model, way):
    """Accuracies after the last epoch, in percent, by seed."""
    return [100 * row["curve"][-1][1] for row in chosen(data, model, way)]


def draw(data, plt):
    figure, axes = plt.subplots(3, 1, figsize=(9, 12))
    for axis, model in zip(axes, MODELS):
        for i, way in enumerate(WAYS):
            rows = chosen(data, model, way)
            epochs = range(len(rows[0]["curve"]))
            points = [common.quartiles([100 * row["curve"][e][1] for row in rows]) for e in epochs]
            axis.errorbar([e + 0.04 * i for e in epochs], [p[1] for p in points],
                          yerr=[[p[1] - p[0] for p in points], [p[2] - p[1] for p in points]],
                          capsize=2, linewidth=1, errorevery=5, label=WAYS[way])
        axis.set(title=f"{MODELS[model]}, {data['seeds']} seeds", xlabel="epoch",
                 ylabel="accuracy on the test images, %")
    axes[0].legend(fontsize=8)
    for i, model in enumerate(MODELS):
        for j, name in enumerate(("largest", "median of those that are not 0")):
            runs = [row["gradients"] for row in chosen(data, model, "float32")]
            epochs = range(1, len(runs[0]) + 1)
            points = [common.quartiles([run[e - 1][j] for run in runs]) for e in epochs]
            axes[2].errorbar(epochs, [p[1] for p in points],
                             yerr=[[p[1] - p[0] for p in points], [p[2] - p[1] for p in points]],
                             color=f"C{i}", linestyle="-" if j == 0 else "--", capsize=2,
                             label=f"{model}, {name}")
    axes[2].set(yscale="log", xlabel="epoch", ylabel="size of a gradient",
                title="the range of gradients, float32")
    axes[2].set_ylim(axes[2].get_ylim()[0] / 100, None)
    axes[2].legend(fontsize=8, loc="lower left")
    return figure


def facts(data):
    yield (f"{data['workers']} workers, {data['epochs']} epochs of the digits in `demo/digits.csv`, "
           f"{data['seeds']} seeds.\nAccuracy on the "
           f"{data['rows'][0]['tests']} test images in %: median, worst and best seed.\n")
    yield "| | " + " | ".join(f"{name} ({chosen(data, model, 'float32')[0]['parameters']} parameters)"
                              for model, name in MODELS.items()) + " |"
    yield "|---|" + len(MODELS) * "---:|"
    for way, title in WAYS.items():
        cells = []
        for model in MODELS:
            values = last(data, model, way)
            cells.append(f"{common.quartiles(values)[1]:.1f} ({min(values):.1f}–{max(values):.1f})")
        yield f"| {title} | " + " | ".join(cells) + " |"
