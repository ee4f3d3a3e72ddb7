# SPDX-License-Identifier: BSD-3-Clause
"""The project's targets, compared with the measurements."""

# Cell, what is measured, wanted, and what the page says of it. Two rows' names: the first one's time over the
# second one's ("best" is Gloo's faster algorithm). A row's own: "limit" is the links' limit over its time, "uplink" the
# bytes that a rack's uplink carries over the tensor's, and "cpu" the share of a core.
TARGETS = """
8x/1gbit/10MB       limit             ours-int32         >=0.95 8 workers, 1 Gbit/s, int32, 10 MB: share of the links' limit
8x/1gbit/10MB       gloo-ring         ours-int32         >=1.65 the same: times Gloo's ring
8x/1gbit/10MB       gloo-ring         ours-int16         >=3.2  int16: times Gloo's ring
8x/1gbit/10MB       gloo-ring         ours-int32-ranks   >=1    no switch, int32: times Gloo's ring
8x/1gbit/10MB       gloo-ring         ours-int16-ranks   >=1.9  no switch, int16: times Gloo's ring
8x/100mbit/10MB     limit             ours-int32         >=0.95 8 workers, 100 Mbit/s, int32, 10 MB: share of the links' limit
8x/100mbit/10MB     gloo-ring         ours-int32         >=1.65 the same: times Gloo's ring
8x/100mbit/10MB     gloo-ring         ours-int16         >=3.2  int16: times Gloo's ring
8x/100mbit/10MB     gloo-ring         ours-int32-ranks   >=1    no switch, int32: times Gloo's ring
8x/100mbit/10MB     gloo-ring         ours-int16-ranks   >=1.9  no switch, int16: times Gloo's ring
4x/1gbit/10MB       gloo-ring         ours-int32-ranks   >=1    4 workers, 1 Gbit/s, no switch, int32: times Gloo's ring
4x/1gbit/10MB       gloo-ring         ours-int16-ranks   >=1.9  int16
4x/100mbit/10MB     gloo-ring         ours-int32-ranks   >=1    4 workers, 100 Mbit/s, no switch, int32: times Gloo's ring
4x/100mbit/10MB     gloo-ring         ours-int16-ranks   >=1.9  int16
12x/1gbit/10MB      gloo-ring         ours-int32-ranks   >=1    12 workers, 1 Gbit/s, no switch, int32: times Gloo's ring
12x/1gbit/10MB      gloo-ring         ours-int16-ranks   >=1.9  int16
12x/100mbit/10MB    gloo-ring         ours-int32-ranks   >=1    12 workers, 100 Mbit/s, no switch, int32: times Gloo's ring
12x/100mbit/10MB    gloo-ring         ours-int16-ranks   >=1.9  int16
4x/100mbit/5MB      gloo-ring-float16 ours-float16       >=1.5  4 workers, 100 Mbit/s, float16, 5 MB: times Gloo's float16 ring
4x/100mbit/5MB      gloo-ring-float16 ours-float16-ranks >=1    no switch
8x/100mbit/5MB      gloo-ring-float16 ours-float16       >=1.7  8 workers, 100 Mbit/s, float16, 5 MB: times Gloo's float16 ring
8x/100mbit/5MB      gloo-ring-float16 ours-float16-ranks >=1    no switch
4x/100mbit/5MB      gloo-ring-float16 ours-float16-int8  >=2.8  4 workers, 100 Mbit/s, int8, 5 MB of float16: times Gloo's float16 ring
4x/100mbit/5MB      gloo-ring-float16 ours-float16-int8-ranks >=1.9  no switch
4x/100mbit/10MB     gloo-ring         ours-int8          >=5.7  4 workers, 100 Mbit/s, int8, 10 MB: times Gloo's ring
4x/100mbit/10MB     gloo-ring         ours-int8-ranks    >=3.8  no switch
8x/100mbit/5MB      gloo-ring-float16 ours-float16-int8  >=3.3  8 workers, 100 Mbit/s, int8, 5 MB of float16: times Gloo's float16 ring
8x/100mbit/5MB      gloo-ring-float16 ours-float16-int8-ranks >=1.9  no switch
8x/100mbit/10MB     gloo-ring         ours-int8          >=6.6  8 workers, 100 Mbit/s, int8, 10 MB: times Gloo's ring
8x/100mbit/10MB     gloo-ring         ours-int8-ranks    >=3.8  no switch
8x/1gbit/10MB       gloo-ring         ours-int8          >=4.5  8 workers, 1 Gbit/s, int8, 10 MB: times Gloo's ring
8x/100mbit/10MB     ours-int32-nic8   ours-int32-two4    >=0.95 two switches on 400 Mbit/s each: times one on 800 Mbit/s
4x/unshaped/10MB    best              ours-int32         >=2    4 workers and the switch on these cores, int32: times Gloo's best
4x/unshaped/10MB    openmpi           ours-int32         >=1.3  the same: times Open MPI over TCP
4x/unshaped/10MB    best              ours-int16         >=3    int16: times Gloo's best
8x/1gbit/10MB/no-offload ours-int32/loss1% ours-int32         <=1.3  8 workers, 1 Gbit/s, 1 % lost each way: time over that without loss
8x/100mbit/10MB/no-offload ours-int32/loss1% ours-int32         <=1.3  the same at 100 Mbit/s
2x4/1gbit/10MB      gloo-ring         ours-int32-groups  >=1.6  2 hosts x 4 workers, 1 Gbit/s, int32, 10 MB: times Gloo's ring
2x4/1gbit/10MB      gloo-ring         ours-int16-groups  >=3.1  int16
2x4/1gbit/10MB      gloo-ring         ours-int32-alone   >=1.6  no switch, int32
2x4/100mbit/10MB    gloo-ring         ours-int32-groups  >=1.6  2 hosts x 4 workers, 100 Mbit/s, int32, 10 MB: times Gloo's ring
2x4/100mbit/10MB    gloo-ring         ours-int16-groups  >=3.1  int16
2x4/100mbit/10MB    gloo-ring         ours-int32-alone   >=1.6  no switch, int32
4x2/1gbit/10MB      gloo-ring         ours-int32-groups  >=1.6  4 hosts x 2 workers, 1 Gbit/s, int32, 10 MB: times Gloo's ring
4x2/1gbit/10MB      gloo-ring         ours-int16-groups  >=3.1  int16
4x2/1gbit/10MB      gloo-ring         ours-int32-alone   >=1.1  no switch, int32
4x2/100mbit/10MB    gloo-ring         ours-int32-groups  >=1.6  4 hosts x 2 workers, 100 Mbit/s, int32, 10 MB: times Gloo's ring
4x2/100mbit/10MB    gloo-ring         ours-int16-groups  >=3.1  int16
4x2/100mbit/10MB    gloo-ring         ours-int32-alone   >=1.1  no switch, int32
1x4/unshaped/10MB   openmpi           ours-int32-alone   >=1    4 workers on one host, int32, 10 MB: times Open MPI's shared memory
1x4/unshaped/10MB   best              ours-int32-alone   >=2    the same: times Gloo's best
1x4/unshaped/16B    ours-int32-alone  openmpi            <=2    4 floats there: median, times Open MPI's
8x/1gbit/10MB/racks ours-int32-racks  ours-int32         <=1.1  2 racks x 4 workers, 1 Gbit/s, int32, 10 MB: time over that of one rack of 8
8x/1gbit/10MB/racks uplink            ours-int32-racks   <=1.1  the same: bytes that a rack's uplink carries each way, over the tensor's
8x/unshaped/16B     best              ours-int32         >=2    4 floats, 8 workers, unshaped: median, times Gloo's best
8x/1gbit/16B        best              ours-int32         >=2    4 floats, 8 workers, 1gbit: median, times Gloo's best
4x/1gbit/10MB       ours-int32        ours-int32/pieces25 >=0.95 25 tensors of 400 kB, 1gbit: throughput over that of one of 10 MB
4x/unshaped/10MB    ours-int32        ours-int32/pieces25 >=0.95 25 tensors of 400 kB, unshaped: throughput over that of one of 10 MB
4x/unshaped/4B      cpu               ours-int32/idle    <=0.01 idle, 4 workers and the switch: share of a core
"""
BEST = ("gloo-ring", "gloo-bcube")
OWN = {"limit": lambda row: row.cell.limit_seconds(row.entry.method) / row.p50(),
       "uplink": lambda row: max(row.wire["up"], row.wire["down"]) / row.calls / row.cell.size_bytes,
       "cpu": lambda row: (row.cpu_ranks + row.cpu_others) / row.elapsed}


def names(slow, fast):
    """Of the rows that a target compares."""
    return (fast,) if slow in OWN else (fast, *(BEST if slow == "best" else (slow,)))


TABLE = [line.split(maxsplit=4) for line in TARGETS.strip().splitlines()]
ROWS = {(cell, name) for cell, slow, fast, *_ in TABLE for name in names(slow, fast)}


def to_json(results):
    """What is said of each target: "met" is None if it was not measured."""
    rows, verdicts = {}, []
    for result in results:
        if result.times and not result.failure:
            # On a star apart, the same row serves only its neighbors.
            rows.setdefault((result.cell.name(mtu=False), result.entry.name()), result)
    for cell, slow, fast, wanted, what in TABLE:
        found = [rows.get((cell, name)) for name in names(slow, fast)]
        target, at_least, measured, met = float(wanted[2:]), wanted.startswith(">"), None, None
        if None not in found:
            mine, *slower = found
            measured = min(row.p50() for row in slower) / mine.p50() if slower else OWN[slow](mine)
            met = measured >= target if at_least else measured <= target
        verdicts.append({"what": what, "how": "at least" if at_least else "at most", "target": target,
                         "measured": measured, "met": met})
    return verdicts


def print_verdicts(results):
    rows = [row for row in to_json(results) if row["measured"] is not None]
    if rows:
        print(f"\n{'target':76} {'':8} {'wanted':>7} {'here':>7}")
    for row in rows:
        print(f"{row['what']:76} {row['how']:8} {row['target']:7.2f} {row['measured']:7.2f}  "
              f"{'met' if row['met'] else 'NOT MET'}")
