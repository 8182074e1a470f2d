"""ofu-report tile: what padding to whole tiles costs one matrix product."""

import math
import re
from difflib import get_close_matches

import click
from click.core import ParameterSource

from slurm_ofu.cli.asked import shape_of
from slurm_ofu.cli.options import OfuCommand, config_option
from slurm_ofu.config import load_config
from slurm_ofu.errors import UsageError
from slurm_ofu.figures.known_tiles import KnownTiles, known_dtypes, known_tiles, parse_dtype
from slurm_ofu.figures.tile_names import KernelTile, parse_kernel, parse_tile
from slurm_ofu.figures.tiles import Gemm, TileAnswer, by_given_tile, by_kernel, by_known_tiles
from slurm_ofu.gpu_models import catalogue, find_model
from slurm_ofu.reports.as_tile import TileSubject, as_tile, tile_as_json
from slurm_ofu.values import GpuModel

_LARGEST = 2**31 - 1
_LARGEST_OFU = 2.0  # 1.28 is the highest that any GPU's clock allows

HELP = """Show what padding to whole tiles costs a matrix product of M×K by K×N.

The tensor pipes multiply whole tiles, and OFU counts the padding as work. Adjusted OFU is OFU times
M·N·K over the product of the padded sides: what FLOPs over time and peak come to. For large matrices
they hardly differ; with a side of some hundreds it can be half.

Say the tile, or the kernel's name as a profiler prints it. Otherwise a tile is guessed from those that
libraries were seen to take on such GPUs, which is said, and the answer is a range.

\b
Examples
  ofu-report tile 8192 257 4096 --tile 128x256x64 --ofu 0.61
  ofu-report tile 8192 257 4096 --kernel nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT
  ofu-report tile 8192 257 4096 --dtype bf16 --gpu "H100 80GB HBM3"

\b
Exit codes
  0  answered, be it by a guess ("is_guess" in JSON)
  1  a number, an option or the configuration cannot be used, or the GPU model is not known
"""


def _size(ctx: click.Context, param: click.Parameter, text: str) -> int:
    """A click callback: one side of a matrix. Options that do not exist get here too."""
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        if text.startswith("-"):
            raise click.NoSuchOption(text, ctx=ctx)
        raise click.BadParameter(f"{text[:40]!r} is not a whole number", ctx, param)
    if len(text) > 20 or not 1 <= int(text) <= _LARGEST:
        raise click.BadParameter(f"{text[:40]} does not lie between 1 and {_LARGEST}", ctx, param)
    return int(text)


def _ofu(ctx: click.Context, param: click.Parameter, ratio: float | None) -> float | None:
    """A click callback: an OFU as a ratio."""
    if ratio is not None and not (math.isfinite(ratio) and 0 <= ratio <= _LARGEST_OFU):
        raise click.BadParameter(
            f"{ratio:g} is no ratio between 0 and {_LARGEST_OFU:g}, as in 0.61", ctx, param
        )
    return ratio


@click.command(
    "tile",
    cls=OfuCommand,
    help=HELP,
    short_help="What padding to whole tiles costs one matrix product.",
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
)
@click.argument("m", callback=_size)
@click.argument("n", callback=_size)
@click.argument("k", callback=_size)
@click.option("--dtype", metavar="FORMAT", help="fp16, bf16, tf32, fp8, fp4, int8 or fp64: for a guess.")
@click.option("--gpu", metavar="NAME", help="GPU model as nvidia-smi names it: for a guess, and for its SMs.")
@click.option("--tile", metavar="MxN[xK]", help="The tile, its M and N as those of the product.")
@click.option("--kernel", metavar="NAME", help="The kernel that a profiler shows: its name says the tile.")
@click.option(
    "--ofu", metavar="RATIO", type=float, callback=_ofu, help="The OFU to adjust, as in 0.61; may exceed 1."
)
@click.option("--json", is_flag=True, help="JSON with units and a schema version.")
@config_option
@click.pass_context
def tile_command(
    ctx: click.Context,
    /,
    m: int,
    n: int,
    k: int,
    json: bool,
    config: str | None,
    gpu: str | None,
    kernel: str | None,
    ofu: float | None,
    **said: str | None,
) -> None:
    """See HELP."""
    model = None if gpu is None else _model(gpu, config or _config_before(ctx))
    named = None if kernel is None else parse_kernel(kernel)
    answer = _answer(Gemm(m=m, n=n, k=k), named, model, ofu, **said)
    subject = TileSubject(
        gpu_model=None if model is None else model.name,
        compute_capability=None if model is None else model.compute_capability,
        sm_count=None if model is None else model.sm_count,
        dtype=None if said["dtype"] is None else parse_dtype(said["dtype"]),
        kernel=kernel,
        splits_k=named is not None and named.splits_k,
    )
    width = shape_of(output=None, colour="never", header=True).width
    click.echo(tile_as_json(answer, subject) if json else as_tile(answer, subject, width=width), nl=False)


def no_options_of(ctx: click.Context) -> None:
    """Refuse the options of reports before this command: they have no part in it. Raises UsageError."""
    for param in ctx.command.params:
        name = param.name or ""
        if name != "config" and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{param.opts[-1]} has no part in {ctx.info_name} {ctx.invoked_subcommand}: leave it out"
            )


def _config_before(ctx: click.Context) -> str | None:
    """``--config`` as said before the command's name."""
    return None if ctx.parent is None else ctx.parent.params.get("config")


def _answer(
    gemm: Gemm,
    kernel: KernelTile | None,
    model: GpuModel | None,
    ofu: float | None,
    *,
    tile: str | None,
    dtype: str | None,
) -> TileAnswer:
    """By what was said, else by a guess. Raises UsageError."""
    if kernel is not None and tile is not None:
        raise UsageError("--tile and --kernel exclude each other: choose one")
    if tile is not None:
        return by_given_tile(gemm, parse_tile(tile), ofu)
    if kernel is not None:
        return by_kernel(gemm, kernel, ofu)
    return by_known_tiles(gemm, _known(dtype, model), ofu)


def _known(dtype: str | None, model: GpuModel | None) -> tuple[KnownTiles, ...]:
    """The tiles to guess from; those of all GPUs where the model, or its architecture, is not known."""
    if dtype is None:
        raise UsageError("which tile? Say --tile MxNxK or --kernel NAME, or --dtype FORMAT for a guess")
    wanted = parse_dtype(dtype)
    capability = None if model is None else model.compute_capability
    known = known_tiles(wanted, capability)
    if known or capability is None:
        return known
    has = known_dtypes(capability)
    if has:
        raise UsageError(f"{model and model.name} has no {wanted} tensor cores; it has {', '.join(has)}")
    return known_tiles(wanted)


def _model(name: str, config: str | None) -> GpuModel:
    """The GPU model of that name, the site's own among them. Raises UsageError."""
    site_models = load_config(config).gpu_models
    model = find_model(name, site_models)
    if model is not None:
        return model
    names = {row.name.casefold(): row.name for row in (*catalogue(), *site_models)}
    wanted = name.casefold()
    near = [known for known in names if wanted in known] or get_close_matches(wanted, names, n=3, cutoff=0.5)
    hint = "near it are" if near else "known are"
    shown = ", ".join(names[known] for known in (near[:5] or names))
    raise UsageError(f"the GPU model {name[:60]!r} is not known; {hint} {shown}")
