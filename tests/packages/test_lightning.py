"""lightning: a LeNet on scikit-learn's digits, with validation, checkpoints, loggers, resuming, testing and predicting."""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")

START = """
import warnings, logging
warnings.filterwarnings("ignore")
import numpy as np
import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torchmetrics
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

class Digits(pl.LightningDataModule):
    def setup(self, stage):
        X, y = load_digits(return_X_y=True)
        X, y = torch.tensor(X[:600] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(y[:600])
        self.parts = {"train": TensorDataset(X[:400], y[:400]), "val": TensorDataset(X[400:500], y[400:500]),
                      "test": TensorDataset(X[500:], y[500:])}

    def train_dataloader(self):
        return DataLoader(self.parts["train"], batch_size=40)

    def val_dataloader(self):
        return DataLoader(self.parts["val"], batch_size=50)

    def test_dataloader(self):
        return DataLoader(self.parts["test"], batch_size=50)

    predict_dataloader = test_dataloader

class LeNet(pl.LightningModule):
    def __init__(self, lr=0.05, width=6):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(width, 16, 3),
                                 nn.Tanh(), nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10)
        self.losses = []
        fill(self.net)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.losses.append(loss.item())
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        out = self(batch[0])
        self.accuracy(out, batch[1])
        self.log("val_loss", nn.functional.cross_entropy(out, batch[1]))
        self.log("val_acc", self.accuracy, on_epoch=True)

    def test_step(self, batch, index):
        self.log("test_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def predict_step(self, batch, index):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)}

def trainer(epochs, folder, **more):
    return pl.Trainer(max_epochs=epochs, default_root_dir=FOLDER + folder, accelerator="cpu", enable_progress_bar=False,
                      enable_model_summary=False, log_every_n_steps=5, **more)
"""

TRAIN = (
    START
    + """
pl.seed_everything(1)
data, result = Digits(), {}
best = ModelCheckpoint(monitor="val_loss", save_last=True, filename="{epoch}")
model = LeNet()
fit = trainer(4, "/a", callbacks=[best, LearningRateMonitor("epoch"), EarlyStopping("val_loss", patience=3)],
              logger=CSVLogger(FOLDER), gradient_clip_val=5.0)
fit.fit(model, data)
result["losses"] = model.losses
result["metrics"] = {k: float(v) for k, v in fit.callback_metrics.items()}
result["test"] = fit.test(model, data, verbose=False)[0]["test_loss"]
result["predicted"] = [p.argmax(-1).tolist() for p in fit.predict(model, data)]
with open(fit.logger.log_dir + "/metrics.csv") as log:
    result["log"] = sorted(log.readline().strip().split(","))
result["files"] = [os.path.basename(best.best_model_path), sorted(os.listdir(os.path.dirname(best.best_model_path)))]
result["model"] = numbers(model.net[0].weight)

# two epochs, then two more from the checkpoint, are four epochs
half = LeNet()
trainer(2, "/b", callbacks=[ModelCheckpoint(FOLDER + "/half", save_last=True)], logger=False,
        gradient_clip_val=5.0).fit(half, data)
rest = LeNet()
on = trainer(4, "/c", logger=False, enable_checkpointing=False, gradient_clip_val=5.0)
on.fit(rest, data, ckpt_path=FOLDER + "/half/last.ckpt")
result["resumed"] = bool(all((a == b).all() for a, b in zip(model.net.parameters(), rest.net.parameters())))
result["rest"] = [rest.losses == model.losses[20:], on.current_epoch, on.global_step]
loaded = LeNet.load_from_checkpoint(best.best_model_path)
result["loaded"] = [loaded.hparams.lr, loaded.hparams.width, trainer(1, "/d", logger=False).test(loaded, data,
                    verbose=False)[0]["test_loss"]]
print(json.dumps(result))
"""
)


def test_trains_stops_and_resumes(both):
    result = both(TRAIN, tolerance=2e-3)
    assert result["losses"][-1] < 0.5 * result["losses"][0] and result["resumed"] and result["rest"][0]


OPTIONS = (
    START
    + """
from lightning.pytorch.utilities.model_summary import ModelSummary
data, result = Digits(), {}

class Manual(LeNet):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.manual_backward(loss)
        optimizer.step()
        self.losses.append(loss.item())

for name, model, options in [
        ("accumulated", LeNet(), dict(accumulate_grad_batches=2)), ("manual", Manual(), {}),
        ("averaged", LeNet(), dict(callbacks=[StochasticWeightAveraging(swa_lrs=0.01, swa_epoch_start=1)])),
        ("float64", LeNet(), dict(precision="64-true")), ("bfloat16", LeNet(), dict(precision="bf16-mixed"))]:
    trainer(2, "/" + name, logger=False, enable_checkpointing=False, **options).fit(model, data)
    result[name] = model.losses if name != "bfloat16" else [round(model.losses[-1] / model.losses[0], 0)]
quick = trainer(1, "/q", fast_dev_run=2)
quick.fit(LeNet(), data)
result["quick"] = quick.global_step
summary = ModelSummary(LeNet(), max_depth=-1)
result["parameters"] = [summary.total_parameters, summary.trainable_parameters, len(str(summary).splitlines())]
compiled = LeNet()
compiled.net = torch.compile(compiled.net) if sys.argv[1] != "torch" else compiled.net
trainer(1, "/z", logger=False, enable_checkpointing=False).fit(compiled, data)
result["compiled"] = compiled.losses
print(json.dumps(result))
"""
)


def test_options_of_the_trainer(both):
    result = both(OPTIONS, tolerance=2e-3)
    assert result["quick"] == 2 and result["compiled"][-1] < result["compiled"][0]
