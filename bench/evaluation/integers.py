# SPDX-License-Identifier: BSD-3-Clause
"""Question 5: does training suffer from integers?"""
import lab as common
import training_runs
from training_runs import chosen

QUESTION = "Does training with sums of integers reach the accuracy of float32?"
ONLY_DRAWN = ("gradients",)
WAYS = {"float32": "float32 (Gloo)", "int32": "int32 wire", "int16": "int16 wire",
        "int16-feedback": "int16, error feedback", "fixed-8": "one factor, 2^8",
        "fixed-20": "one factor, 2^20", "fixed-38": "one factor, 2^38"}
MODELS = {"cnn": "a convolutional network", "transformer": "a transformer"}


def run(lab):
    epochs, seeds = lab.choose(2, 30, 1), lab.choose(2, 5, 1)
    rows = training_runs.train(lab, 4, 0, lab.choose(600, 7200), models=list(MODELS),
                               ways=list(WAYS), seeds=seeds, epochs=epochs)
    return {"workers": 4, "epochs": epochs, "seeds": seeds, "rows": rows}


def draw(data, plt):
    figure, (*axes, sizes) = plt.subplots(3, 1, figsize=(9, 12))
    for axis, (i, model) in zip(axes, enumerate(MODELS)):
        for j, way in enumerate(WAYS):
            curves = zip(*[[100 * right for _, right in row["curve"]] for row in chosen(data, model, way)])
            points = [common.quartiles(values) for values in curves]
            common.line(axis, [e + 0.04 * j for e in range(len(points))], points, linewidth=1, errorevery=5,
                        label=WAYS[way])
        axis.set(title=f"{MODELS[model]}, {data['seeds']} seeds", xlabel="epoch",
                 ylabel="accuracy on the test images, %")
        runs = [row["gradients"] for row in chosen(data, model, "float32")]
        for j, name in enumerate(("largest", "median of those that are not 0")):
            points = [common.quartiles([both[j] for both in epoch]) for epoch in zip(*runs)]
            common.line(sizes, range(1, len(points) + 1), points, color=f"C{i}", linestyle="--" if j else "-",
                        label=f"{model}, {name}")
    axes[0].legend(fontsize=8)
    sizes.set(yscale="log", xlabel="epoch", ylabel="size of a gradient", title="the range of gradients, float32")
    sizes.set_ylim(sizes.get_ylim()[0] / 100, None)
    sizes.legend(fontsize=8, loc="lower left")
    return figure


def facts(data):
    yield (f"{data['workers']} workers, {data['epochs']} epochs of the digits in `demo/digits.csv`, "
           f"{data['seeds']} seeds.\nAccuracy on the "
           f"{data['rows'][0]['tests']} test images in %: median, worst and best seed.\n")
    yield common.header("", *(f"{name} ({chosen(data, model, 'float32')[0]['parameters']} parameters)"
                              for model, name in MODELS.items()))
    for way, title in WAYS.items():
        yield common.row(title, *(training_runs.at_the_end(chosen(data, model, way)) for model in MODELS))
