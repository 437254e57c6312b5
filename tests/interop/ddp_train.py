"""A small real training job: DistributedDataParallel over gloo, with checkpoints, that a launcher starts.

    ddp_train.py FOLDER [--epochs N] [--crash-rank R --crash-epoch E]

Nothing in it knows the launcher: it uses env:// and torch's own names.  Each rank trains on its share of a data set
(two interleaved spirals, made from a fixed seed), rank 0 saves a checkpoint after every epoch, and a later attempt goes
on from there.  With --crash-rank that rank dies once, in the first attempt.  At the end every rank writes the loss over
the whole data set to FOLDER/result.RANK.json; with equal starts and equal steps it is the same on all ranks to the bit.
Times (CLOCK_REALTIME, seconds) go to FOLDER/times.ATTEMPT.RANK.json: the launcher's speed is read from them.
"""
import time

FIRST_LINE = time.time()

import argparse
import json
import os
import sys

RANK = int(os.environ["RANK"])
ATTEMPT = int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def write_json(path, value):
    with open(path + ".new", "w") as f:
        json.dump(value, f)
    os.replace(path + ".new", path)


def spirals(torch, n):
    generator = torch.Generator().manual_seed(7)
    turn = torch.rand(n, generator=generator).sqrt() * 9.0
    label = torch.arange(n) % 2
    angle = turn + label * torch.pi
    noise = torch.randn(n, 2, generator=generator) * 0.08
    points = torch.stack((turn * angle.cos(), turn * angle.sin()), dim=1) / 9.0 + noise
    return points, label.float().unsqueeze(1)


def crash(folder, epoch):
    print("rank %d: crashing on purpose in epoch %d of attempt %d" % (RANK, epoch, ATTEMPT), file=sys.stderr, flush=True)
    write_json(os.path.join(folder, "crash.json"), {"time": time.time()})
    os._exit(17)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--crash-rank", type=int, default=-1)
    parser.add_argument("--crash-epoch", type=int, default=2)
    args = parser.parse_args()
    write_json(os.path.join(args.folder, "times.%d.%d.json" % (ATTEMPT, RANK)), {"first_line": FIRST_LINE})

    import torch
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss_of = nn.BCEWithLogitsLoss()
    points, labels = spirals(torch, 2048)
    mine = torch.arange(RANK, len(points), dist.get_world_size())
    order = torch.Generator().manual_seed(3)
    checkpoint = os.path.join(args.folder, "checkpoint.pt")
    first = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
        if RANK == 0:
            print("attempt %d goes on from the checkpoint of epoch %d" % (ATTEMPT, saved["epoch"]), flush=True)
    dist.barrier()

    for epoch in range(first, args.epochs):
        if ATTEMPT == 0 and RANK == args.crash_rank and epoch == args.crash_epoch:
            crash(args.folder, epoch)
        order.manual_seed(epoch)
        for batch in mine[torch.randperm(len(mine), generator=order)].split(64):
            optimizer.zero_grad()
            loss = loss_of(model(points[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if RANK == 0:
            print("epoch %d: loss %.4f" % (epoch, mean.item() / dist.get_world_size()), flush=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch},
                       checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        dist.barrier()

    with torch.no_grad():
        final = loss_of(model(points), labels).item()
    write_json(os.path.join(args.folder, "result.%d.json" % RANK),
               {"loss": final, "attempt": ATTEMPT, "first_epoch": first, "world": dist.get_world_size()})
    dist.destroy_process_group()


main()
