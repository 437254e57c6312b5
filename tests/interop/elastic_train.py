"""A training job whose result does not depend on how many nodes there are, or on what happens to them.

    elastic_train.py FOLDER [--steps N] [--pace SECONDS]
    elastic_train.py FOLDER --check          what was logged is what one process alone computes, step by step

DistributedDataParallel over gloo, in double precision.  Every rank takes its share of all points in each step and weighs
its loss so that the mean over the ranks is the mean over the points: each step is the same whatever the world.  Rank 0 saves a checkpoint
after every step and then logs `step loss world restarts` to FOLDER/steps.  Without --steps it goes on until there
is FOLDER/enough; FOLDER/crash.RANK, which is taken away, makes that rank fail once.
"""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

N_POINTS = 240


def problem():
    torch.manual_seed(5)
    points = torch.rand(N_POINTS, 2, dtype=torch.float64) * 2 - 1
    values = (points[:, :1] * 3).sin() * points[:, 1:] + points[:, 1:] ** 2
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    return points, values, model


def make_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.003)


def step(model, optimizer, points, values, scale):
    """Returns the sum of squares over these points, before the step."""
    optimizer.zero_grad()
    squares = (model(points) - values).square().sum()
    (squares * scale).backward()
    optimizer.step()
    return squares.detach()


def train(args):
    rank, path = int(os.environ["RANK"]), lambda name: os.path.join(args.folder, name)
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    points, values, bare = problem()
    model = nn.parallel.DistributedDataParallel(bare)
    optimizer = make_optimizer(model)
    mine = torch.arange(rank, N_POINTS, world)
    done = 0
    if os.path.exists(path("checkpoint")):
        saved = torch.load(path("checkpoint"), weights_only=True)
        bare.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["steps"]
    dist.barrier()
    print("rank %d of %d on %s begins after step %d" % (rank, world, os.uname().nodename, done), flush=True)
    is_over = torch.zeros(1)
    while not is_over.item():
        squares = step(model, optimizer, points[mine], values[mine], world / N_POINTS)
        dist.all_reduce(squares)
        done += 1
        if rank == 0:
            torch.save({"model": bare.state_dict(), "optimizer": optimizer.state_dict(), "steps": done}, path("checkpoint.new"))
            os.replace(path("checkpoint.new"), path("checkpoint"))
            with open(path("steps"), "a") as log:
                log.write("%d %.12f %d %s\n" % (done, squares.item() / N_POINTS, world, os.environ["TORCHELASTIC_RESTART_COUNT"]))
            is_over[0] = done >= args.steps if args.steps else os.path.exists(path("enough"))
        dist.broadcast(is_over, 0)
        try:
            os.unlink(path("crash.%d" % rank))
        except FileNotFoundError:
            pass
        else:
            os._exit(17)
        time.sleep(args.pace)
    dist.barrier()
    dist.destroy_process_group()
    print("rank %d of %d ends well after step %d" % (rank, world, done), flush=True)


def check(args):
    """No step is missing, and each has the loss that one process computes.  The last one that was saved before a failure may
    not have been logged, and a failure may come between: a step may then be logged never or twice, never differently."""
    with open(os.path.join(args.folder, "steps")) as log:
        rows = [line.split() for line in log]
    points, values, model = problem()
    optimizer = make_optimizer(model)
    last = int(rows[-1][0])
    losses = [step(model, optimizer, points, values, 1 / N_POINTS).item() / N_POINTS for _ in range(last)]
    at = 0
    for number, loss, world, restarts in rows:
        number = int(number)
        if number not in (at, at + 1, at + 2):
            sys.exit("after step %d comes step %d" % (at, number))
        at = number
        if abs(float(loss) - losses[at - 1]) > 1e-7:
            sys.exit("step %d with %s ranks, restart %s: loss %s, alone it is %.12f" % (at, world, restarts, loss, losses[at - 1]))
    if args.steps and last != args.steps:
        sys.exit("%d steps, not %d" % (last, args.steps))
    worlds = [row[2] for row in rows]
    print("steps %d worlds %s" % (last, " ".join(w for i, w in enumerate(worlds) if i == 0 or w != worlds[i - 1])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.02)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        check(args)
    else:
        train(args)


main()
