"""ofu-report tile, as people call it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_ofu.cli.report import report
from tests.cli.conftest import Ask

SIDES = ("8192", "257", "4096")
KERNEL = "nvjet_tst_128x256_64x4_1x1_h_bz_coopA_TNT"
H100 = ("--gpu", "NVIDIA H100 80GB HBM3")


def tile(*arguments: str) -> Result:
    """ofu-report tile, without a configuration."""
    return CliRunner().invoke(report, ["tile", *arguments], prog_name="ofu-report", env=dict(os.environ))


def answered(*arguments: str) -> Any:
    """Its JSON."""
    result = tile(*arguments, "--json")
    assert (0, "") == (result.exit_code, result.stderr)
    return json.loads(result.stdout)


def test_one_column_too_many() -> None:
    """257 columns by tiles of 256 are half padding: an OFU of 61 % is 30.6 % of the GEMM's own work."""
    result = tile(*SIDES, "--tile", "128x256x64", "--ofu", "0.61")
    assert (0, "") == (result.exit_code, result.stderr)
    assert (
        result.stdout
        == """\
GEMM of M × N × K = 8192 × 257 × 4096
  Tile      128x256x64, as said
  Padding   49.8 % of what the tensor pipes multiply
  OFU       61.0 % as measured, 30.6 % without padding

Tile        Padded to          Useful  Padding  Adjusted OFU  Which
128x256x64  8192 × 512 × 4096  50.2 %   49.8 %        30.6 %  as said
"""
    )


def test_an_aligned_product_is_not_padded() -> None:
    """Sides that are multiples of the tile's: OFU is what it says."""
    found = answered("8192", "256", "4096", "--tile", "128x256x64", "--ofu", "0.61")
    assert (1, 0.61) == (found["useful_ratio"], found["adjusted_ofu_ratio"])


def test_a_guess_by_gpu_and_format() -> None:
    """With a GPU and a format alone the tile is guessed, said to be, and the answer is a range."""
    found = answered(*SIDES, "--dtype", "bfloat16", *H100, "--ofu", "0.61")
    assert (True, "seen", "bf16", "H100 80GB HBM3", "9.0", 132) == tuple(
        found[name] for name in ("is_guess", "basis", "dtype", "gpu_model", "compute_capability", "sm_count")
    )
    assert None is found["adjusted_ofu_ratio"]
    assert 0 < found["adjusted_ofu_ratio_low"] < found["adjusted_ofu_ratio_high"] < 0.61
    assert {"m": 128, "n": 256, "k": 64} == found["cases"][0]["tile"]
    text = tile(*SIDES, "--dtype", "bfloat16", *H100).stdout
    assert "a guess: 128x256x64 is usual for large GEMMs on this GPU" in text


def test_a_guess_without_a_gpu() -> None:
    """Without a GPU the tiles of all that have the format are in the range."""
    assert len(answered(*SIDES, "--dtype", "fp16")["sources"]) > 4
    assert "(say --gpu)" in tile(*SIDES, "--dtype", "fp16").stdout


def test_a_kernels_name() -> None:
    """What a profiler printed says the tile; which way round it lies it does not say."""
    found = answered(*SIDES, "--kernel", KERNEL, *H100)
    assert (False, "kernel", KERNEL) == (found["is_guess"], found["basis"], found["kernel"])
    assert (257 / 512, pytest.approx(257 / 384)) == (found["useful_ratio_low"], found["useful_ratio_high"])
    assert (1, 132) == (found["waves"]["wave_count"], found["waves"]["sm_count"])


def test_split_k_is_told() -> None:
    """A kernel that splits K may pad more than its tile says."""
    assert "Split K" in tile(*SIDES, "--kernel", "nvjet_tst_64x64_64x8_2x1_v_bz_splitK_TNT").stdout
    assert "Split K" not in tile(*SIDES, "--kernel", KERNEL).stdout


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (("0", "1", "1"), "Invalid value for 'M': 0 does not lie between 1 and 2147483647"),
        (("1", "-5", "1"), "Invalid value for 'N': -5 does not lie between 1 and 2147483647"),
        (("1", "1", "2147483648"), "Invalid value for 'K': 2147483648 does not lie between 1 and 2147483647"),
        (("1", "1", "9" * 9999), "Invalid value for 'K': 9"),
        (("1", "1.5", "1"), "Invalid value for 'N': '1.5' is not a whole number"),
        (("", "1", "1"), "Invalid value for 'M': '' is not a whole number"),
        (("1", "1e3", "1"), "Invalid value for 'N': '1e3' is not a whole number"),
        (("1", "１", "1"), "Invalid value for 'N': '１' is not a whole number"),
        (("1", "1"), "Missing argument 'K'"),
        (("1", "1", "1", "1"), "Got unexpected extra argument (1)"),
        (("1", "--bogus", "1"), "Error: No such option"),
    ],
)
def test_sides_are_positive_whole_numbers(sides: tuple[str, ...], said: str) -> None:
    """A side that is none is named, with exit code 1, and nothing is printed."""
    result = tile(*sides, "--tile", "128x128x64")
    assert (1, "") == (result.exit_code, result.stdout)
    assert said in result.stderr
    assert len(result.stderr) < 300


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "which tile? Say --tile MxNxK or --kernel NAME, or --dtype FORMAT for a guess"),
        (("--gpu", "H100 PCIe"), "which tile?"),
        (("--tile", "128"), "the tile '128' is not MxNxK, as in 128x256x64"),
        (("--tile", "8x8", "--kernel", KERNEL), "--tile and --kernel exclude each other: choose one"),
        (("--kernel", "flash_fwd_kernel"), "no tile is found in the kernel name 'flash_fwd_kernel'"),
        (("--kernel", "ampere_sgemm_128x64_tn"), "does not use the tensor pipes"),
        (("--dtype", "fp61"), "the number format 'fp61' is not known; did you mean fp64?"),
        (("--dtype", "fp32"), "where TF32 is allowed say tf32"),
        (("--tile", "8x8", "--dtype", "fp61"), "the number format 'fp61' is not known"),
        (
            ("--dtype", "fp8", "--gpu", "A30"),
            "A30 has no fp8 tensor cores; it has fp16, bf16, tf32, int8, fp64",
        ),
        (("--dtype", "fp16", "--gpu", "H100 80GB"), "the GPU model 'H100 80GB' is not known; near it are"),
        (("--dtype", "fp16", "--gpu", "h200"), "near it are H200"),
        (("--dtype", "fp16", "--gpu", "v100"), "near it are Tesla V100"),
        (("--dtype", "fp16", "--gpu", "H1000 PCIe"), "near it are H100 PCIe"),
        (("--dtype", "fp16", "--gpu", "@"), "the GPU model '@' is not known; known are"),
        (("--tile", "8x8", "--ofu", "61"), "61 is no ratio between 0 and 2, as in 0.61"),
        (("--tile", "8x8", "--ofu", "-0.1"), "-0.1 is no ratio between 0 and 2"),
        (("--tile", "8x8", "--ofu", "nan"), "nan is no ratio between 0 and 2"),
        (("--tile", "8x8", "--ofu", "x"), "'x' is not a valid float"),
    ],
)
def test_what_cannot_be_used_is_told(options: tuple[str, ...], said: str) -> None:
    """An option that cannot be used is told with its value and what to do, with exit code 1."""
    result = tile(*SIDES, *options)
    assert (1, "") == (result.exit_code, result.stdout)
    assert said in result.stderr


def test_a_sites_own_gpu_model(tmp_path: Path) -> None:
    """A GPU model of the configuration is known, before the command's name or after it; without a compute
    capability its tiles are a guess among all."""
    config = tmp_path / "slurm-ofu.toml"
    config.write_text('[gpu_models."X-1"]\nreference_clock_mhz = 1500\nsm_count = 64\n')
    for before, after in ((("--config", str(config)), ()), ((), ("--config", str(config)))):
        arguments = [*before, "tile", *SIDES, "--dtype", "bf16", "--gpu", "X 1", *after]
        result = CliRunner().invoke(report, arguments, prog_name="ofu-report")
        assert (0, "") == (result.exit_code, result.stderr)
        assert "on 64 SMs" in result.stdout
        assert "(of this one no tiles are known)" in " ".join(result.stdout.split())


def test_a_configuration_that_cannot_be_used(tmp_path: Path) -> None:
    """A configuration is read where a GPU is named, and its faults are told; else it does not matter."""
    missing = ("--config", str(tmp_path / "none.toml"))
    result = tile(*SIDES, "--tile", "8x8", *H100, *missing)
    assert (1, "") == (result.exit_code, result.stdout)
    assert "none.toml: no such file" in result.stderr
    assert 0 == tile(*SIDES, "--tile", "8x8", *missing).exit_code


@pytest.mark.parametrize(
    ("before", "named"), [(("-u", "ada"), "--user"), (("-j", "7"), "--jobs"), (("--json",), "--json")]
)
def test_options_of_reports_have_no_part(before: tuple[str, ...], named: str) -> None:
    """What asks for a report is refused before the command's name rather than taken for nothing."""
    result = CliRunner().invoke(report, [*before, "tile", *SIDES, "--tile", "8x8"], prog_name="ofu-report")
    assert (1, f"ofu-report: {named} has no part in ofu-report tile: leave it out\n") == (
        result.exit_code,
        result.stderr,
    )


def test_reports_are_as_before(ask: Ask) -> None:
    """Without the command's name ofu-report is the report it has always been; a stray word is an error."""
    assert ask("-a", "-S", "2025-06-01").stdout.startswith("OFU by job, all users, 2025-06-01")
    assert ask("-u", "tile", "-S", "2025-06-01").stderr.startswith("no jobs match: user tile (")
    wrong = ask("jobs")
    assert (1, "") == (wrong.exit_code, wrong.stdout)
    assert "Got unexpected extra argument (jobs): the only command is tile" in wrong.stderr
    assert "(til 1 2 3)" in ask("til", "1", "2", "3").stderr


def test_help_mentions_it() -> None:
    """ofu-report --help-all names the command, and its own help says what it is for."""
    overview = CliRunner().invoke(report, ["--help-all"], prog_name="ofu-report")
    assert "tile  What padding to whole tiles costs one matrix product." in overview.stdout
    own = tile("--help")
    assert (0, "") == (own.exit_code, own.stderr)
    assert "Usage: ofu-report tile [OPTIONS] M N K" in own.stdout
    assert "--kernel NAME" in own.stdout


def test_as_a_process() -> None:
    """The installed entry point answers without a database, and does not load rich."""
    script = (
        "import sys; from slurm_ofu.cli.report import main\n"
        "try: main()\n"
        "finally: print('rich' in sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "tile", *SIDES, "--tile", "128x256x64"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "False\n") == (done.returncode, done.stderr)
    assert "49.8 %" in done.stdout
