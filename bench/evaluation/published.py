# SPDX-License-Identifier: BSD-3-Clause
"""What others have published of the paper's eight models: sizes, and the time of a GPU's step.

Nothing here was measured by us. SIZES are the totals of the paper's models in MiB (it writes MB).
STEPS has, for each model, a batch and the seconds of one training step on one GPU in float32,
with a source for each end of the range. The time includes what the source includes: most of them
count forward, backward and the optimizer.
"""

SIZES = {"DeepLight": 2319, "LSTM": 1627, "BERT": 1274, "NCF": 679, "VGG19": 548, "UGATIT": 511,
         "ResNet50": 98, "SSD": 87}

NVIDIA = "NVIDIA, DeepLearningExamples, PyTorch"

# model: (batch, fewest seconds, most seconds, GPU, source and the numbers that it gives)
STEPS = {
    "DeepLight": (2048, 4.4 / 100, 4.6 / 100, "not named",
                  "Deng et al., DeepLight, 2021, the log in the authors' repository: 100 batches "
                  "of 2,048 take 4.4 to 4.6 s (with Criteo's smaller data set: 13.7 million "
                  "parameters, so its optimizer had less to do)"),
    "LSTM": (128, 12.5 * 3600 / 312089, 0.1613, "P100",
             "Spring, PyTorch_GBW_LM, 2019: 12.5 hours an epoch of 312,089 batches of 128 "
             "sentences of 20 words; its log has 161.3 ms a batch"),
    "BERT": (8, 8 / 12, 8 / 10.7, "V100",
             f"{NVIDIA}/LanguageModeling/BERT, 2022: SQuAD, batch 8, 12 sequences/s on one V100, "
             "and 85.5 on eight"),
    "NCF": (1048576, 1048576 / 10.90e6, 1048576 / 10.14e6, "V100",
            f"{NVIDIA}/Recommendation/NCF, 2021: 10.14 to 10.90 million samples/s (with smaller "
            "tables than the paper's, but the same layers)"),
    "VGG19": (64, 0.32746, 64 * 0.08797 / 16, "V100",
              "Mikushin, cnn-benchmarks (after Johnson's), 2019: 327.46 ms for a batch of 64, and "
              "87.97 ms for one of 16"),
    "UGATIT": (1, 4 * 86400 / 1e6, 7 * 86400 / 1e6, "V100, RTX 3090",
               "the author's answer in issue 3 of taki0112/UGATIT, 2019: 4 days (of a million steps, "
               "the default); a user's answer in issue 62 of znxlwm/UGATIT-pytorch, 2021: about 7 days (neither "
               "says whether the light form was meant)"),
    "SSD": (32, 32 / 107.22, 32 / (840.35 / 8), "V100",
            f"{NVIDIA}/Detection/SSD, 2022: batch 32, 107.22 images/s on one V100, and 840.35 on "
            "eight"),
    "ResNet50": (64, 64 / 367, 64 / 356, "V100",
                 f"{NVIDIA}/Classification/ConvNets/resnet50v1.5, 2021: 356 to 367 images/s (for a "
                 "batch of 64, if the rate does not depend on the batch)"),
}

# Of a ring's bound, what NCCL reached in the figures of Sapio et al., 2021.
NCCL_OF_RING = (0.63, 0.76)
BEST_SPEEDUP = 5.55
