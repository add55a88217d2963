"""skorch: a classifier and a regressor that fit, predict, are saved, cross-validated and searched over by scikit-learn."""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("skorch") is None, reason="skorch is not installed")

PROGRAM = """
import pickle
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring, GradientNormClipping, LRScheduler
from skorch.dataset import ValidSplit

class Net(torch.nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10),
                                          torch.nn.Softmax(-1))
        fill(self, 0.2)

    def forward(self, x):
        return self.layers(x)

X, y = load_digits(return_X_y=True)
X, y = (X / 16).astype(np.float32)[:600], y.astype(np.int64)[:600]
common = dict(max_epochs=4, lr=0.5, batch_size=50, iterator_train__shuffle=False, verbose=0,
              train_split=ValidSplit(5, stratified=True))
net = NeuralNetClassifier(Net, criterion=torch.nn.NLLLoss, optimizer__momentum=0.5, callbacks=[
    LRScheduler("StepLR", step_size=2, gamma=0.5), GradientNormClipping(5.0),
    Checkpoint(dirname=FOLDER, monitor="valid_loss_best"),
    EpochScoring("f1_macro", lower_is_better=False, name="f1"), EarlyStopping(patience=3)], **common)
net.fit(X, y)
result = dict(train=net.history[:, "train_loss"], valid=net.history[:, "valid_loss"], f1=[float(v) for v in net.history[:, "f1"]],
              proba=net.predict_proba(X[:5]).flatten().astype(float).tolist(), score=float(net.score(X, y)))
again = NeuralNetClassifier(Net, criterion=torch.nn.NLLLoss, optimizer__momentum=0.5, **common).initialize()
again.load_params(checkpoint=Checkpoint(dirname=FOLDER))
result["loaded"] = float(again.score(X, y))
net.save_params(f_params=FOLDER + "/p.pt", f_optimizer=FOLDER + "/o.pt", f_history=FOLDER + "/h.json")
again.load_params(f_params=FOLDER + "/p.pt", f_optimizer=FOLDER + "/o.pt", f_history=FOLDER + "/h.json")
result["saved"] = bool((again.predict(X) == net.predict(X)).all())
net.partial_fit(X, y)
result["more"] = net.history[:, "train_loss"]
result["pickled"] = bool((pickle.loads(pickle.dumps(net)).predict(X) == net.predict(X)).all())
quick = NeuralNetClassifier(Net, criterion=torch.nn.NLLLoss, **{**common, "max_epochs": 2, "train_split": None})
result["cross"] = cross_val_score(quick, X, y, cv=3).tolist()
search = GridSearchCV(make_pipeline(StandardScaler(), quick), {"neuralnetclassifier__lr": [0.01, 0.1],
                      "neuralnetclassifier__module__hidden": [8, 16]}, cv=2, scoring="accuracy").fit(X, y)
result["search"] = [search.best_params_, float(search.best_score_)]
line = NeuralNetRegressor(torch.nn.Linear, module__in_features=64, module__out_features=1, optimizer=torch.optim.Adam,
                          **{**common, "lr": 0.01, "train_split": None, "max_epochs": 10})
line.initialize()
fill(line.module_)
line.partial_fit(X, y[:, None].astype(np.float32))
result["regression"] = line.history[:, "train_loss"]
print(json.dumps(result))
"""


def test_fits_like_torch(both):
    result = both(PROGRAM, tolerance=2e-3)
    assert result["score"] > 0.85 and result["saved"] and result["pickled"] and result["valid"][-1] < result["valid"][0]
    assert result["regression"][-1] < result["regression"][0]
