"""CLIP, a masked autoencoder, VQ-VAE with moving averages, DETR with its matching loss."""

import math
from collections import OrderedDict
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

from .base import model, ramp, whole


class LayerNorm(nn.LayerNorm):
    def forward(self, x: torch.Tensor):
        orig_type = x.dtype
        return super().forward(x.type(torch.float32)).type(orig_type)


class QuickGELU(nn.Module):
    def forward(self, x: torch.Tensor):
        return x * torch.sigmoid(1.702 * x)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, d_model: int, n_head: int, attn_mask: torch.Tensor = None):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_head)
        self.ln_1 = LayerNorm(d_model)
        self.mlp = nn.Sequential(
            OrderedDict(
                [("c_fc", nn.Linear(d_model, d_model * 4)), ("gelu", QuickGELU()), ("c_proj", nn.Linear(d_model * 4, d_model))]
            )
        )
        self.ln_2, self.attn_mask = LayerNorm(d_model), attn_mask

    def attention(self, x: torch.Tensor):
        self.attn_mask = self.attn_mask.to(dtype=x.dtype, device=x.device) if self.attn_mask is not None else None
        return self.attn(x, x, x, need_weights=False, attn_mask=self.attn_mask)[0]

    def forward(self, x: torch.Tensor):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class CLIP(nn.Module):
    def __init__(self, width=16, embed=8, patch=4, res=8, context=7, vocab=31):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, patch, stride=patch, bias=False)
        scale = width**-0.5
        self.class_embedding = nn.Parameter(scale * torch.randn(width))
        self.visual_positions = nn.Parameter(scale * torch.randn((res // patch) ** 2 + 1, width))
        self.visual = nn.Sequential(*[ResidualAttentionBlock(width, 2) for _ in range(2)])
        self.ln_post, self.proj = LayerNorm(width), nn.Parameter(scale * torch.randn(width, embed))
        self.token_embedding = nn.Embedding(vocab, width)
        self.positional_embedding = nn.Parameter(torch.empty(context, width))
        self.transformer = nn.Sequential(
            *[ResidualAttentionBlock(width, 2, self.build_attention_mask(context)) for _ in range(1)]
        )
        self.ln_final, self.text_projection = LayerNorm(width), nn.Parameter(torch.empty(width, embed))
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))
        nn.init.normal_(self.positional_embedding, std=0.01)
        nn.init.normal_(self.text_projection, std=width**-0.5)

    def build_attention_mask(self, n):
        mask = torch.empty(n, n)
        mask.fill_(float("-inf"))
        mask.triu_(1)
        return mask

    @property
    def dtype(self):
        return self.conv1.weight.dtype

    def encode_image(self, image):
        x = self.conv1(image.type(self.dtype))
        x = x.reshape(x.shape[0], x.shape[1], -1).permute(0, 2, 1)
        start = self.class_embedding.to(x.dtype) + torch.zeros(x.shape[0], 1, x.shape[-1], dtype=x.dtype, device=x.device)
        x = torch.cat([start, x], dim=1) + self.visual_positions.to(x.dtype)
        x = self.visual(x.permute(1, 0, 2)).permute(1, 0, 2)
        return self.ln_post(x[:, 0, :]) @ self.proj

    def encode_text(self, text):
        x = self.token_embedding(text).type(self.dtype) + self.positional_embedding.type(self.dtype)
        x = self.ln_final(self.transformer(x.permute(1, 0, 2)).permute(1, 0, 2)).type(self.dtype)
        return x[torch.arange(x.shape[0]), text.argmax(dim=-1)] @ self.text_projection

    def forward(self, image, text):
        image_features, text_features = self.encode_image(image), self.encode_text(text)
        image_features = image_features / image_features.norm(dim=1, keepdim=True)
        text_features = text_features / text_features.norm(dim=1, keepdim=True)
        logits_per_image = self.logit_scale.exp() * image_features @ text_features.t()
        return logits_per_image, logits_per_image.t()


@model
def clip():
    labels = torch.arange(3)
    return (
        CLIP(),
        (ramp(3, 3, 8, 8), whole(31, 3, 7)),
        lambda o: (F.cross_entropy(o[0], labels) + F.cross_entropy(o[1], labels)) / 2,
    )


class MAE(nn.Module):
    def __init__(self, patch=4, dim=12, decoder_dim=8):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch * patch * 3, dim)
        self.pos_embed = nn.Parameter(torch.zeros(1, 4, dim), requires_grad=False)
        layer = partial(nn.TransformerEncoderLayer, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder, self.decoder_embed = (
            nn.TransformerEncoder(layer(dim), 1, enable_nested_tensor=False),
            nn.Linear(dim, decoder_dim),
        )
        self.mask_token = nn.Parameter(torch.zeros(1, 1, decoder_dim))
        self.decoder, self.pred = layer(decoder_dim), nn.Linear(decoder_dim, patch * patch * 3)
        self.apply(self._init_weights)

    def _init_weights(self, m):
        if isinstance(m, nn.Linear):
            torch.nn.init.xavier_uniform_(m.weight)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.constant_(m.bias, 0)
        elif isinstance(m, nn.LayerNorm):
            nn.init.constant_(m.bias, 0)
            nn.init.constant_(m.weight, 1.0)

    def patchify(self, imgs):
        p = self.patch
        h = w = imgs.shape[2] // p
        x = imgs.reshape(shape=(imgs.shape[0], 3, h, p, w, p))
        return torch.einsum("nchpwq->nhwpqc", x).reshape(shape=(imgs.shape[0], h * w, p**2 * 3))

    def random_masking(self, x, noise, mask_ratio):
        N, L, D = x.shape
        len_keep = int(L * (1 - mask_ratio))
        ids_shuffle = torch.argsort(noise, dim=1)
        ids_restore = torch.argsort(ids_shuffle, dim=1)
        ids_keep = ids_shuffle[:, :len_keep]
        x_masked = torch.gather(x, dim=1, index=ids_keep.unsqueeze(-1).repeat(1, 1, D))
        mask = torch.ones([N, L], device=x.device)
        mask[:, :len_keep] = 0
        return x_masked, torch.gather(mask, dim=1, index=ids_restore), ids_restore

    def forward(self, imgs, noise, mask_ratio=0.5):
        target = self.patchify(imgs)
        x, mask, ids_restore = self.random_masking(self.embed(target) + self.pos_embed, noise, mask_ratio)
        x = self.decoder_embed(self.encoder(x))
        mask_tokens = self.mask_token.repeat(x.shape[0], ids_restore.shape[1] - x.shape[1], 1)
        x = torch.cat([x, mask_tokens], dim=1)
        x = torch.gather(x, dim=1, index=ids_restore.unsqueeze(-1).repeat(1, 1, x.shape[2]))
        pred = self.pred(self.decoder(x))
        mean, var = target.mean(dim=-1, keepdim=True), target.var(dim=-1, keepdim=True)
        loss = ((pred - (target - mean) / (var + 1.0e-6) ** 0.5) ** 2).mean(dim=-1)
        return (loss * mask).sum() / mask.sum()


@model
def masked_autoencoder():
    return MAE(), (ramp(2, 3, 8, 8), torch.tensor([[0.3, 0.1, 0.9, 0.4], [0.8, 0.2, 0.5, 0.6]])), lambda o: o


class VectorQuantizerEMA(nn.Module):
    def __init__(self, n, dim, commitment_cost=0.25, decay=0.9, epsilon=1e-5):
        super().__init__()
        self._embedding = nn.Embedding(n, dim)
        self._embedding.weight.data.normal_()
        self.register_buffer("_ema_cluster_size", torch.zeros(n))
        self._ema_w = nn.Parameter(torch.Tensor(n, dim))
        self._ema_w.data.normal_()
        self._n, self._fl_dim, self._decay, self._epsilon, self._cost = n, dim, decay, epsilon, commitment_cost

    def forward(self, inputs):
        inputs = inputs.permute(0, 2, 3, 1).contiguous()
        flat = inputs.view(-1, self._fl_dim)
        distances = (
            torch.sum(flat**2, dim=1, keepdim=True)
            + torch.sum(self._embedding.weight**2, dim=1)
            - 2 * torch.matmul(flat, self._embedding.weight.t())
        )
        encoding_indices = torch.argmin(distances, dim=1).unsqueeze(1)
        encodings = torch.zeros(encoding_indices.shape[0], self._n, device=inputs.device)
        encodings.scatter_(1, encoding_indices, 1)
        quantized = torch.matmul(encodings, self._embedding.weight).view(inputs.shape)
        if self.training:
            self._ema_cluster_size = self._ema_cluster_size * self._decay + (1 - self._decay) * torch.sum(encodings, 0)
            n = torch.sum(self._ema_cluster_size.data)
            self._ema_cluster_size = (self._ema_cluster_size + self._epsilon) / (n + self._n * self._epsilon) * n
            dw = torch.matmul(encodings.t(), flat)
            self._ema_w = nn.Parameter(self._ema_w * self._decay + (1 - self._decay) * dw)
            self._embedding.weight = nn.Parameter(self._ema_w / self._ema_cluster_size.unsqueeze(1))
        loss = self._cost * F.mse_loss(quantized.detach(), inputs)
        quantized = inputs + (quantized - inputs).detach()
        avg_probs = torch.mean(encodings, dim=0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return loss, quantized.permute(0, 3, 1, 2).contiguous(), perplexity, encodings


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 3, padding=1))
        self.vq = VectorQuantizerEMA(6, 4)
        self.decoder = nn.Sequential(nn.Conv2d(4, 8, 3, 1, 1), nn.ReLU(True), nn.ConvTranspose2d(8, 3, 4, 2, 1))

    def forward(self, x):
        loss, quantized, perplexity, _ = self.vq(self.encoder(x))
        return loss, self.decoder(quantized), perplexity


@model
def vq_vae():
    x = ramp(2, 3, 8, 8)
    return VQVAE(), (x,), lambda o: o[0] + F.mse_loss(o[1], x)


def box_cxcywh_to_xyxy(x):
    x_c, y_c, w, h = x.unbind(-1)
    return torch.stack([x_c - 0.5 * w, y_c - 0.5 * h, x_c + 0.5 * w, y_c + 0.5 * h], dim=-1)


def generalized_box_iou(boxes1, boxes2):
    assert (boxes1[:, 2:] >= boxes1[:, :2]).all()
    area = lambda b: (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    lt, rb = torch.max(boxes1[:, None, :2], boxes2[:, :2]), torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = area(boxes1)[:, None] + area(boxes2) - inter
    wh = (torch.max(boxes1[:, None, 2:], boxes2[:, 2:]) - torch.min(boxes1[:, None, :2], boxes2[:, :2])).clamp(min=0)
    hull = wh[:, :, 0] * wh[:, :, 1]
    return inter / union - (hull - union) / hull


class DETR(nn.Module):
    def __init__(self, num_classes=5, hidden_dim=16, num_queries=6):
        super().__init__()
        self.backbone = nn.Conv2d(3, 24, 4, 4)
        self.conv = nn.Conv2d(24, hidden_dim, 1)
        self.transformer = nn.Transformer(hidden_dim, 2, 1, 1, 32, dropout=0.0)
        self.linear_class = nn.Linear(hidden_dim, num_classes + 1)
        self.linear_bbox = nn.Linear(hidden_dim, 4)
        self.query_pos = nn.Parameter(torch.rand(num_queries, hidden_dim))
        self.row_embed = nn.Parameter(torch.rand(10, hidden_dim // 2))
        self.col_embed = nn.Parameter(torch.rand(10, hidden_dim // 2))

    def forward(self, inputs):
        h = self.conv(F.relu(self.backbone(inputs)))
        H, W = h.shape[-2:]
        pos = (
            torch.cat([self.col_embed[:W].unsqueeze(0).repeat(H, 1, 1), self.row_embed[:H].unsqueeze(1).repeat(1, W, 1)], dim=-1)
            .flatten(0, 1)
            .unsqueeze(1)
        )
        h = self.transformer(pos + h.flatten(2).permute(2, 0, 1), self.query_pos.unsqueeze(1).repeat(1, h.shape[0], 1)).transpose(
            0, 1
        )
        return {"pred_logits": self.linear_class(h), "pred_boxes": self.linear_bbox(h).sigmoid()}


def detr_loss(outputs):
    targets = [
        {"labels": torch.tensor([1, 3]), "boxes": torch.tensor([[0.5, 0.5, 0.2, 0.4], [0.3, 0.7, 0.1, 0.2]])},
        {"labels": torch.tensor([2]), "boxes": torch.tensor([[0.6, 0.4, 0.5, 0.3]])},
    ]
    bs, num_queries = outputs["pred_logits"].shape[:2]
    out_prob = outputs["pred_logits"].flatten(0, 1).softmax(-1)
    out_bbox = outputs["pred_boxes"].flatten(0, 1)
    tgt_ids, tgt_bbox = torch.cat([v["labels"] for v in targets]), torch.cat([v["boxes"] for v in targets])
    giou = generalized_box_iou(box_cxcywh_to_xyxy(out_bbox), box_cxcywh_to_xyxy(tgt_bbox))
    C = (torch.cdist(out_bbox, tgt_bbox, p=1) - out_prob[:, tgt_ids] - giou).view(bs, num_queries, -1).detach().cpu()
    sizes = [len(v["boxes"]) for v in targets]
    indices = []
    for i, c in enumerate(C.split(sizes, -1)):
        order = c[i].argsort(0)[0]  # (greedy, for the Hungarian matching)
        indices.append((torch.as_tensor(order, dtype=torch.int64), torch.arange(sizes[i])))
    batch_idx = torch.cat([torch.full_like(src, i) for i, (src, _) in enumerate(indices)])
    src_idx = torch.cat([src for (src, _) in indices])
    target_classes = torch.full((bs, num_queries), 5, dtype=torch.int64)
    target_classes[(batch_idx, src_idx)] = torch.cat([t["labels"][J] for t, (_, J) in zip(targets, indices)])
    empty_weight = torch.ones(6)
    empty_weight[-1] = 0.1
    loss = F.cross_entropy(outputs["pred_logits"].transpose(1, 2), target_classes, empty_weight)
    src_boxes = outputs["pred_boxes"][(batch_idx, src_idx)]
    loss = loss + F.l1_loss(src_boxes, tgt_bbox, reduction="none").sum() / 3
    return loss + (1 - torch.diag(generalized_box_iou(box_cxcywh_to_xyxy(src_boxes), box_cxcywh_to_xyxy(tgt_bbox)))).sum() / 3


@model
def detr():
    return DETR(), (ramp(2, 3, 12, 16),), detr_loss
