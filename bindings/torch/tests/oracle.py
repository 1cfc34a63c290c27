# SPDX-License-Identifier: Apache-2.0
# Inputs that every rank can compute for all ranks, and what the collectives must make of them.
import functools

import numpy as np
import torch
import torch.distributed as dist

from pool import Setting

Op = dist.ReduceOp
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
WIDE = [torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SMALL_FLOATS = [torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
ALL = INTEGERS + WIDE + FLOATS + SMALL_FLOATS + COMPLEX + [torch.bool]
# What gloo cannot move or reduce.
GLOO_LACKS = {torch.int16, *WIDE, *SMALL_FLOATS}


def ops_of(dtype):
    """The operations that are legal for a type."""
    if dtype in COMPLEX:
        ops = [Op.SUM, Op.AVG]
    elif dtype == torch.bool:
        ops = [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.BAND, Op.BOR, Op.BXOR]
    else:
        ops = [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.AVG]
        if dtype in INTEGERS + WIDE:
            ops += [Op.BAND, Op.BOR, Op.BXOR]
    if Setting.backend == "gloo":
        gone = {Op.AVG.name, *(("SUM", "PRODUCT", "BXOR") if dtype == torch.bool else ())}
        ops = [op for op in ops if op.name not in gone]
    return ops


def values(rank, count, dtype, salt=0):
    """A rank's `count` elements: random bits of integers, moderate floats. Equal on every rank."""
    random = torch.Generator().manual_seed(Setting.seed * 1000003 + salt * 1009 + rank * 31 + count)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=random).to(torch.bool)
    if dtype in COMPLEX:
        part = torch.float32 if dtype == torch.complex64 else torch.float64
        return torch.view_as_complex(torch.randn(count, 2, generator=random, dtype=part))
    if dtype.is_floating_point:
        return torch.randn(count, generator=random).clamp(-2, 2).to(dtype)
    bits = torch.randint(-2**63, 2**63 - 1, (count,), generator=random)
    return bits.view(torch.uint8)[:count * dtype.itemsize].clone().view(dtype)


def make(data, layout):
    """A tensor with these elements: as they lie, transposed, with gaps, or of 0 dimensions."""
    count = data.numel()
    if layout == "scalar":
        return data.clone().reshape(())
    if layout == "transposed":
        width = next(w for w in (90, 33, 2, 1) if count % w == 0)
        return torch.empty(width, count // width, dtype=data.dtype).t().copy_(
            data.view(count // width, width))
    if layout == "gaps":
        return torch.zeros(2 * count, dtype=data.dtype)[::2].copy_(data)
    return data.clone()


def flat(tensor):
    """A copy of its elements; contiguous() keeps a single element's odd stride."""
    return torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))


def same_bits(got, wanted):
    return torch.equal(flat(got).view(torch.uint8), flat(wanted).view(torch.uint8))


NUMPY = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum,
         "BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}
BOOL = {"SUM": "BOR", "MAX": "BOR", "PRODUCT": "BAND", "MIN": "BAND"}


def reduced_exactly(arrays, name):
    """Integers modulo 2^bits; avg truncates toward zero."""
    if arrays[0].dtype == np.bool_:
        name = BOOL.get(name, name)
    with np.errstate(over="ignore"):
        if name != "AVG":
            return functools.reduce(NUMPY[name], arrays)
        total = functools.reduce(np.add, arrays)
        ranks = total.dtype.type(len(arrays))
        return (total - np.fmod(total, ranks)) // ranks


def wrong(got, inputs, op):
    """Why `got` is not the reduction of the ranks' inputs; None if it is."""
    name, dtype, got = op.name, inputs[0].dtype, flat(got)
    if got.dtype != dtype or got.numel() != inputs[0].numel():
        return f"{got.numel()} elements of {got.dtype}"
    if dtype in COMPLEX:
        return wrong(torch.view_as_real(got), [torch.view_as_real(x).reshape(-1) for x in inputs], op)
    if not dtype.is_floating_point:
        wanted = reduced_exactly([x.numpy() for x in inputs], name)
        return None if np.array_equal(got.numpy(), wanted) else at(got, torch.from_numpy(wanted),
                                                                   got.numpy() != wanted)
    wide = np.stack([x.to(torch.float64).numpy() for x in inputs])
    result, info = got.to(torch.float64).numpy(), torch.finfo(dtype)
    slack = info.smallest_normal * info.eps * len(inputs)
    if name in ("MIN", "MAX"):
        wanted, bound = functools.reduce(NUMPY[name], wide), 0.0
    elif name == "PRODUCT":
        wanted = np.prod(wide, axis=0)
        bound = info.eps * len(inputs) * np.abs(wanted) + slack * 2**len(inputs)
    else:
        share = len(inputs) if name == "AVG" else 1
        wanted = wide.sum(axis=0) / share
        bound = info.eps * len(inputs) * np.abs(wide).sum(axis=0) / share + slack
    far = ~(np.abs(result - wanted) <= bound)
    return at(got, torch.from_numpy(wanted), far) if far.any() else None


def at(got, wanted, far):
    first = int(np.flatnonzero(far)[0])
    return f"{int(far.sum())} of {len(far)} differ, first [{first}]: {got[first]}, not {wanted[first]}"
