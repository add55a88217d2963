"""torchmetrics: classification, regression, aggregation, collections, states, image and text metrics."""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchmetrics") is None, reason="torchmetrics is not installed")

PROGRAM = """
import torchmetrics as tm
from torchmetrics import classification as C, clustering as K, regression as R, functional as F
i = torch.arange(640)                 # scores without ties: equal ones are ranked by softmax's last digit
logits = (((i * i * 31 + i * 7919) % 10007).float() / 10007 * 6 - 3).reshape(4, 32, 5)
target = (torch.arange(128) * 7 % 5).reshape(4, 32)
scores, truth = filled((4, 32), 2, 0.5) + 0.5, (torch.arange(128) * 11 % 3 == 0).long().reshape(4, 32)
x, y = filled((4, 32), 3, 1.0), filled((4, 32), 4, 1.0)
multi = dict(task="multiclass", num_classes=5)
metrics = {
    "accuracy": (tm.Accuracy(**multi), logits, target),
    "macro": (tm.Accuracy(**multi, average="macro"), logits, target),
    "top2": (tm.Accuracy(**multi, top_k=2), logits, target),
    "precision": (tm.Precision(**multi, average="macro"), logits, target),
    "recall": (tm.Recall(**multi, average=None), logits, target),
    "f1": (tm.F1Score(**multi, average="weighted"), logits, target),
    "confusion": (tm.ConfusionMatrix(**multi, normalize="true"), logits, target),
    "auroc": (tm.AUROC(**multi), logits, target),
    "ap": (tm.AveragePrecision(task="binary"), scores, truth),
    "roc": (tm.ROC(task="binary", thresholds=7), scores, truth),
    "kappa": (tm.CohenKappa(**multi), logits, target),
    "matthews": (tm.MatthewsCorrCoef(task="binary"), scores, truth),
    "jaccard": (tm.JaccardIndex(**multi), logits, target),
    "calibration": (tm.CalibrationError(**multi, n_bins=5), logits.softmax(-1), target),
    "hinge": (tm.HingeLoss(**multi), logits, target),
    "stat": (C.MulticlassStatScores(num_classes=5), logits, target),
    "mse": (R.MeanSquaredError(), x, y),
    "mae": (R.MeanAbsoluteError(), x, y),
    "r2": (R.R2Score(), x, y),
    "pearson": (R.PearsonCorrCoef(), x, y),
    "spearman": (R.SpearmanCorrCoef(), x, y),
    "kendall": (R.KendallRankCorrCoef(), x, y),
    "explained": (R.ExplainedVariance(), x, y),
    "cosine": (R.CosineSimilarity(reduction="mean"), x[:, None], y[:, None]),
    "kl": (R.KLDivergence(), x.softmax(-1)[:, None], y.softmax(-1)[:, None]),
    **{cls.__name__: (cls(), (torch.arange(96) * 11 % 5).reshape(4, 24), (torch.arange(96) * 7 % 4).reshape(4, 24)) for cls in (
        K.MutualInfoScore, K.AdjustedMutualInfoScore, K.NormalizedMutualInfoScore, K.RandScore, K.AdjustedRandScore,
        K.FowlkesMallowsIndex, K.HomogeneityScore, K.CompletenessScore, K.VMeasureScore)},
}
result = {}
for name, (metric, p, t) in metrics.items():
    for k in range(4):
        metric.update(p[k], t[k])
    value = metric.compute()
    result[name] = [[str(v.dtype), numbers(v)] for v in (value if isinstance(value, tuple) else [value])]
print(json.dumps(result))
"""

NAMES = """accuracy macro top2 precision recall f1 confusion auroc ap roc kappa matthews jaccard calibration hinge stat mse mae r2
pearson spearman kendall explained cosine kl MutualInfoScore AdjustedMutualInfoScore NormalizedMutualInfoScore RandScore
AdjustedRandScore FowlkesMallowsIndex HomogeneityScore CompletenessScore VMeasureScore""".split()


@pytest.mark.parametrize("name", NAMES)
def test_metric(both, name):
    assert both(PROGRAM, part=name, tolerance=1e-5)


OTHERS = """
import copy, pickle
import torchmetrics as tm
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure
from torchmetrics.text import Perplexity, WordErrorRate, EditDistance
logits, target = filled((3, 16, 4), 1, 3.0), (torch.arange(48) * 7 % 4).reshape(3, 16)
both = tm.MetricCollection({"acc": tm.Accuracy(task="multiclass", num_classes=4),
                            "f1": tm.F1Score(task="multiclass", num_classes=4, average="macro")}, prefix="val_")
steps = [{k: float(v) for k, v in both(p, t).items()} for p, t in zip(logits, target)]
result = dict(steps=steps, all={k: float(v) for k, v in both.compute().items()})
again = pickle.loads(pickle.dumps(both))
result["pickled"] = {k: float(v) for k, v in again.compute().items()}
kept = tm.MeanMetric()
kept.persistent(True)
for v, w in ((1.0, 1.0), (4.0, 3.0)):
    kept.update(v, w)
other = tm.MeanMetric()
other.persistent(True)
other.load_state_dict(kept.state_dict())
result["mean"], result["loaded"] = float(kept.compute()), float(other.compute())
result["sum"] = float(tm.SumMetric()(torch.tensor([1.0, float("nan"), 2.0])))
running = tm.aggregation.RunningMean(window=2)
result["running"] = [float(running(v)) for v in (1.0, 2.0, 6.0)]
halves = kept + tm.MaxMetric()
result["composed"] = float(halves(torch.tensor(3.0)))
a, b = filled((2, 3, 24, 24), 1, 0.5) + 0.5, filled((2, 3, 24, 24), 2, 0.5) + 0.5
result["psnr"] = float(PeakSignalNoiseRatio(data_range=1.0)(a, b))
result["ssim"] = float(StructuralSimilarityIndexMeasure(data_range=1.0)(a, (a + b) / 2))
result["perplexity"] = float(Perplexity()(logits, target))
result["wer"] = float(WordErrorRate()(["a b c", "d e"], ["a x c", "d e f"]))
tracker = tm.MetricTracker(tm.Accuracy(task="multiclass", num_classes=4))
for p, t in zip(logits, target):
    tracker.increment()
    tracker.update(p, t)
result["best"] = [float(tracker.best_metric()), tracker.n_steps]
both.reset()
result["boot"] = sorted(tm.BootStrapper(tm.MeanSquaredError(), num_bootstraps=3, mean=True, std=False).compute())
result["double"] = str(tm.MeanMetric().set_dtype(torch.float64)(2.0).dtype)
print(json.dumps(result))
"""


def test_collections_states_and_other_metrics(both):
    result = both(OTHERS, tolerance=1e-5)
    assert result["pickled"] == result["all"] and result["loaded"] == result["mean"] == 3.25
