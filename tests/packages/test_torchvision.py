"""torchvision's operators and the detectors that they make, in training and prediction, eager and compiled.

Where PyTorch is, its torchvision may lack the operators (they come as a library for one build of it): two of them are defined
by plain tensor operations there.
"""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")

START = """
real = sys.argv[1] == "torch"
if real:
    def plain_nms(boxes, scores, threshold):
        order, kept = scores.argsort(stable=True, descending=True).tolist(), []
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        for i in order:
            both = (torch.minimum(boxes[i, 2:], boxes[kept, 2:]) - torch.maximum(boxes[i, :2], boxes[kept, :2])).clamp(min=0).prod(1)
            if not bool((both / (area[i] + area[kept] - both) > threshold).any()):
                kept.append(i)
        return torch.tensor(kept, dtype=torch.int64)
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", plain_nms, "CPU")
import torchvision
from torchvision import ops
from torchvision.models import detection
from torchvision.models.detection import _utils, roi_heads
from torchvision.ops import boxes as box_ops, poolers
if real:
    box_ops._assert_has_ops = lambda: None

    def weights(low, extent, bins, samples, m):
        step = extent / bins
        at = low[:, None, None] + (torch.arange(bins)[:, None] + (torch.arange(samples) + 0.5) / samples) * step[:, None, None]
        inside, at = (at >= -1) & (at <= m), at.clamp(0, m - 1)
        near = (1 - (at[..., None] - torch.arange(m)).abs()).clamp(min=0)
        return (near * inside[..., None]).mean(2)

    def plain_align(x, rois, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
        if not isinstance(rois, torch.Tensor):
            rois = ops._utils.convert_boxes_to_roi_format(rois)
        bins = output_size if not isinstance(output_size, int) else (output_size, output_size)
        x1, y1, x2, y2 = (rois.detach()[:, k] * spatial_scale - 0.5 * aligned for k in (1, 2, 3, 4))
        wide, high = (x2 - x1, y2 - y1) if aligned else ((x2 - x1).clamp(min=1), (y2 - y1).clamp(min=1))
        down = weights(y1, high, bins[0], sampling_ratio, x.shape[2])
        across = weights(x1, wide, bins[1], sampling_ratio, x.shape[3])
        return torch.einsum("kchw,kph,kqw->kcpq", x[rois[:, 0].long()], down.to(x.dtype), across.to(x.dtype))
    poolers.roi_align = plain_align
"""

DETECTORS = (
    START
    + """
def first_ones(self, matched):
    "The sampler draws; here it takes the first."
    chosen = []
    for x in matched:
        positive = torch.where(x >= 1)[0][: int(self.batch_size_per_image * self.positive_fraction)]
        negative = torch.where(x == 0)[0][: self.batch_size_per_image - positive.numel()]
        chosen.append([torch.zeros_like(x, dtype=torch.uint8).index_fill(0, at, 1) for at in (positive, negative)])
    return [list(masks) for masks in zip(*chosen)]
_utils.BalancedPositiveNegativeSampler.__call__ = first_ones

def model():
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 4, 1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, 2, 1), torch.nn.ReLU())
    backbone.out_channels = 16
    own = dict(min_size=64, max_size=96, rpn_anchor_generator=detection.rpn.AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),)),
               box_roi_pool=poolers.MultiScaleRoIAlign(["0"], 5, 2), box_score_thresh=0.001)
    kind = sys.argv[2]
    if kind == "masks":
        made = detection.MaskRCNN(backbone, 3, mask_roi_pool=poolers.MultiScaleRoIAlign(["0"], 6, 2), **own)
    else:
        made = detection.FasterRCNN(backbone, 3, **own)
    return fill(made).double().train()

boxes = torch.tensor([[5.0, 8, 40, 50], [20, 10, 60, 44]])
target = {"boxes": boxes, "labels": torch.tensor([1, 2]), "masks": (torch.arange(2 * 64 * 64).reshape(2, 64, 64) % 3 == 0).to(torch.uint8)}
images = [filled((3, 64, 64), 1, 1.0).double(), filled((3, 64, 64), 2, 1.0).double()]

def trained(compiled):
    net = model()
    call, optimizer, told = torch.compile(net) if compiled else net, torch.optim.SGD(net.parameters(), lr=1e-4), []
    for _ in range(2):
        losses = call(images, [dict(target), dict(target)])
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        told += [float(losses[name].detach()) for name in sorted(losses)]
    with torch.no_grad():
        found = net.eval()(images)
    return {"losses": told, "found": [len(each["boxes"]) for each in found], "scores": numbers(torch.cat([e["scores"] for e in found]))}
print(json.dumps({"eager": trained(False), "compiled": trained(not real)}))
"""
)

OPERATORS = """
import torchvision
from torchvision import ops
boxes, scores = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]]), torch.tensor([0.8, 0.9, 0.7])
x = torch.arange(64.0).reshape(1, 1, 8, 8)
layer = ops.DeformConv2d(1, 2, 3, padding=1)
moved = layer(x, torch.zeros(1, 18, 8, 8), torch.ones(1, 9, 8, 8))
plain = torch.nn.functional.conv2d(x, layer.weight, layer.bias, padding=1)
print(json.dumps([ops.nms(boxes, scores, 0.5).tolist(), ops.batched_nms(boxes, scores, torch.tensor([0, 1, 1]), 0.5).tolist(),
                  ops.roi_align(x, [boxes[:1] / 2], 1, aligned=True).tolist(), bool(torch.allclose(moved, plain, atol=1e-4)),
                  ops.roi_pool(x, [boxes[:1] / 2], 2).tolist(), torchvision.extension._has_ops()]))
"""


@pytest.mark.parametrize("kind", ["boxes", "masks"])
def test_detectors(both, kind):
    got = both(DETECTORS, kind, tolerance=1e-6)
    assert len(got["eager"]["losses"]) == (8 if kind == "boxes" else 10) and sum(got["eager"]["found"]) > 0
    assert got["compiled"]["losses"] == pytest.approx(got["eager"]["losses"], rel=1e-6)
    assert got["compiled"]["scores"] == pytest.approx(got["eager"]["scores"], rel=1e-6)


def test_operators():
    import sys

    from .conftest import run

    assert run(sys.executable, "flambeau", OPERATORS) == [
        [1, 2],
        [1, 0, 2],
        [[[[18.0]]]],
        True,
        [[[[18.0, 21.0], [42.0, 45.0]]]],
        True,
    ]
