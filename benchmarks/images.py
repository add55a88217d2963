"""Rows with convolutions: ResNet-18 and a small variational autoencoder."""

from registry import inference, training, workload


def resnet18(lib, inputs, classes):
    nn, F = lib.nn, lib.nn.functional

    def conv(i, o, size, stride):
        return nn.Conv2d(i, o, size, stride=stride, padding=size // 2, bias=False)

    class Residual(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.conv1, self.norm1 = conv(i, o, 3, stride), nn.BatchNorm2d(o)
            self.conv2, self.norm2 = conv(o, o, 3, 1), nn.BatchNorm2d(o)
            self.short = nn.Identity() if i == o else nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o))

        def forward(self, x):
            y = F.relu(self.norm1(self.conv1(x)))
            return F.relu(self.norm2(self.conv2(y)) + self.short(x))

    class Mean(nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    stages = [
        Residual(*sizes)
        for sizes in (
            (64, 64, 1),
            (64, 64, 1),
            (64, 128, 2),
            (128, 128, 1),
            (128, 256, 2),
            (256, 256, 1),
            (256, 512, 2),
            (512, 512, 1),
        )
    ]
    stem = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
    return inputs.fill(nn.Sequential(*stem, *stages, Mean(), nn.Linear(512, classes)))


@workload("resnet_infer", note="ResNet-18, 4 images of 224 x 224, inference")
def _(lib, inputs, wrap):
    return inference(lib, wrap(resnet18(lib, inputs, 1000).eval()), inputs.floats(4, 3, 224, 224))


@workload("resnet_train", note="a training step of ResNet-18 with SGD, 8 images of 64 x 64")
def _(lib, inputs, wrap):
    model = resnet18(lib, inputs, 10)
    x, y, f = inputs.floats(8, 3, 64, 64), inputs.integers(10, 8), wrap(model)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    return training(optimizer, lambda: lib.nn.functional.cross_entropy(f(x), y))


@workload("vae_train", note="a training step of a convolutional VAE with AdamW, 64 images of 28 x 28")
def _(lib, inputs, wrap):
    nn, F = lib.nn, lib.nn.functional

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Conv2d(1, 32, 4, stride=2, padding=1),
                nn.ReLU(),
                nn.Conv2d(32, 64, 4, stride=2, padding=1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(3136, 256),
                nn.ReLU(),
            )
            self.mean, self.log_variance = nn.Linear(256, 32), nn.Linear(256, 32)
            self.unpack = nn.Linear(32, 3136)
            self.decoder = nn.Sequential(
                nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1)
            )

        def forward(self, x, noise):
            h = self.encoder(x)
            mean, log_variance = self.mean(h), self.log_variance(h)
            z = mean + noise * lib.exp(0.5 * log_variance)
            y = self.decoder(F.relu(self.unpack(z)).view(-1, 64, 7, 7))
            likelihood = F.binary_cross_entropy_with_logits(y, x, reduction="sum")
            return (likelihood - 0.5 * lib.sum(1 + log_variance - mean * mean - lib.exp(log_variance))) / x.shape[0]

    model = inputs.fill(VAE())
    x, noise, f = lib.sigmoid(inputs.floats(64, 1, 28, 28)), inputs.floats(64, 32), wrap(model)
    return training(lib.optim.AdamW(model.parameters(), lr=1e-3), lambda: f(x, noise))
