"""Attention over a graph by scatter, policies and Q-functions with their losses."""

import math
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

from .base import model, ramp, whole


def scatter_sum(src, index, dim=0, dim_size=None):
    index = index.view([-1 if i == dim else 1 for i in range(src.dim())]).expand_as(src)
    size = list(src.size())
    size[dim] = dim_size if dim_size is not None else int(index.max()) + 1
    return torch.zeros(size, dtype=src.dtype, device=src.device).scatter_add_(dim, index, src)


def segment_softmax(src, index, num_nodes):
    out = src - src.new_full((num_nodes, src.size(1)), -1e9).scatter_reduce_(
        0, index[:, None].expand_as(src), src, reduce="amax"
    ).detach().index_select(0, index)
    out = out.exp()
    return out / (scatter_sum(out, index, dim_size=num_nodes).index_select(0, index) + 1e-16)


class GATConv(nn.Module):
    def __init__(self, in_channels, out_channels, heads=2, negative_slope=0.2):
        super().__init__()
        self.heads, self.out_channels, self.negative_slope = heads, out_channels, negative_slope
        self.lin = nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.Tensor(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.Tensor(1, heads, out_channels))
        self.bias = nn.Parameter(torch.Tensor(heads * out_channels))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_uniform_(self.lin.weight)
        for p in (self.att_src, self.att_dst):
            nn.init.xavier_normal_(p)
        self.bias.data.fill_(0)

    def forward(self, x, edge_index):
        N, H, C = x.size(0), self.heads, self.out_channels
        loops = torch.arange(N, dtype=edge_index.dtype, device=x.device)
        src, dst = torch.cat([edge_index, loops.unsqueeze(0).repeat(2, 1)], dim=1)
        x = self.lin(x).view(-1, H, C)
        alpha_src, alpha_dst = (x * self.att_src).sum(-1), (x * self.att_dst).sum(-1)
        alpha = F.leaky_relu(alpha_src[src] + alpha_dst[dst], self.negative_slope)
        alpha = segment_softmax(alpha, dst, N)
        return scatter_sum(x[src] * alpha.unsqueeze(-1), dst, 0, N).reshape(N, H * C) + self.bias


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.lin = GATConv(5, 4), GATConv(8, 4), nn.Linear(8, 3)

    def forward(self, x, edge_index, batch):
        deg = torch.zeros(x.size(0)).index_add_(0, edge_index[1], torch.ones(edge_index.size(1)))
        norm = deg.clamp(min=1).pow(-0.5)
        norm.masked_fill_(norm == float("inf"), 0)
        x = F.elu(self.conv1(x * norm[:, None], edge_index))
        x = self.conv2(x, edge_index).relu()
        count = torch.bincount(batch, minlength=2).clamp_(min=1).unsqueeze(1)
        return F.log_softmax(self.lin(scatter_sum(x, batch) / count), dim=1)


@model
def graph_network():
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 5, 2], [1, 0, 3, 2, 5, 4, 3, 2]])
    target = torch.tensor([0, 2])
    return GNN(), (ramp(6, 5), edges, torch.tensor([0, 0, 0, 1, 1, 1])), lambda o: F.nll_loss(o, target)


def layer_init(layer, std=math.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, observations=4, actions=3):
        super().__init__()
        self.network = nn.Sequential(layer_init(nn.Linear(observations, 8)), nn.Tanh(), layer_init(nn.Linear(8, 8)), nn.Tanh())
        self.actor, self.critic = layer_init(nn.Linear(8, actions), std=0.01), layer_init(nn.Linear(8, 1), std=1)
        self.actor_mean, self.actor_logstd = layer_init(nn.Linear(8, 2)), nn.Parameter(torch.zeros(1, 2))

    def get_action_and_value(self, x, action, moves):
        hidden = self.network(x)
        probs = torch.distributions.Categorical(logits=self.actor(hidden))
        mean = self.actor_mean(hidden)
        moved = torch.distributions.Normal(mean, torch.exp(self.actor_logstd.expand_as(mean)))
        return (
            probs.log_prob(action) + moved.log_prob(moves).sum(1),
            probs.entropy() + moved.entropy().sum(1),
            self.critic(hidden),
        )

    def forward(self, obs, action, moves, rewards, dones, old_logprob):
        newlogprob, entropy, values = self.get_action_and_value(obs, action, moves)
        values = values.flatten()
        with torch.no_grad():
            advantages, lastgaelam = torch.zeros_like(rewards), 0
            for t in reversed(range(len(rewards))):
                nextnonterminal = 1.0 - dones[t]
                nextvalue = values[t + 1] if t + 1 < len(rewards) else values[-1]
                delta = rewards[t] + 0.99 * nextvalue * nextnonterminal - values[t]
                advantages[t] = lastgaelam = delta + 0.99 * 0.95 * nextnonterminal * lastgaelam
            returns = advantages + values
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = (newlogprob - old_logprob).exp()
        pg_loss = torch.max(-advantages * ratio, -advantages * torch.clamp(ratio, 0.8, 1.2)).mean()
        return pg_loss - 0.01 * entropy.mean() + 0.5 * 0.5 * ((values - returns) ** 2).mean()


@model
def policy_gradient():
    return (
        Agent(),
        (ramp(6, 4), whole(3, 6), ramp(6, 2), ramp(6, salt=2), (whole(5, 6) == 0).float(), ramp(6, salt=4) - 3),
        lambda o: o,
    )


Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class DuelingDQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = nn.Sequential(nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(12), nn.ReLU())
        self.advantage, self.value = nn.Linear(12, 4), nn.Linear(12, 1)

    def q(self, x):
        x = self.feature(x)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(1, keepdim=True)

    def forward(self, states, actions, rewards):
        memory = [
            Transition(s, a, None if k % 3 == 2 else s.flip(-1), r) for k, (s, a, r) in enumerate(zip(states, actions, rewards))
        ]
        batch = Transition(*zip(*memory))
        non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
        non_final_next_states = torch.stack([s for s in batch.next_state if s is not None])
        state_action_values = self.q(torch.stack(batch.state)).gather(1, torch.stack(batch.action)[:, None])
        next_state_values = torch.zeros(len(memory))
        with torch.no_grad():
            next_state_values[non_final_mask] = self.q(non_final_next_states).max(1).values
        return state_action_values, (next_state_values * 0.9 + torch.stack(batch.reward)).unsqueeze(1)


@model
def deep_q():
    net = DuelingDQN()
    net.feature(ramp(1, 2, 7, 7))
    return net, (ramp(5, 2, 7, 7), whole(4, 5), ramp(5)), lambda o: nn.SmoothL1Loss()(*o)
