"""What a page of dcgm-exporter says, in every version's words, and what it does not say."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ofu.counters.dcgm_fields import FIELDS, QUANTITIES, Quantity, canonical, names_of
from slurm_ofu.counters.exporter_page import movements, read_page
from slurm_ofu.counters.pattern import Pattern, Segment
from tests.standins.exporter.page import DIALECTS, ExporterGpu, ExporterNode

A, B = "GPU-58e8f5ea-13cc-013a-d88f-2bcf5ae8bc77", "GPU-6e19195c-4b54-4a21-9f53-0a7f3ef1a1f0"
TENSOR, NEW_TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"
BUSY = Pattern(
    [
        Segment(
            seconds=1,
            tensor_active_ratio=0.412,
            sm_clock_mhz=1395,
            sm_active_ratio=0.75,
            dram_active_ratio=0.5,
            utilisation_ratio=0.98,
            power_watts=312.5,
            memory_used_bytes=40 * 2**30,
        )
    ]
)
TRUTH: Mapping[Quantity, float] = {
    "tensor_active_ratio": 0.412,
    "sm_active_ratio": 0.75,
    "dram_active_ratio": 0.5,
    "engine_active_ratio": 1.0,
    "sm_clock_mhz": 1395.0,
    "utilisation_ratio": 0.98,
    "power_watts": 312.5,
    "energy_joules": 312.5 * 90,
    "memory_used_bytes": 40.0 * 2**30,
}


def line(name: str, value: object, *, uuid: str = A, more: str = "") -> str:
    """One series of one GPU."""
    return (
        f'{name}{{gpu="0",UUID="{uuid}",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"{more}}} {value}\n'
    )


def values(text: str, uuid: str = A, instance: int | None = None) -> Mapping[Quantity, float]:
    """What a page says of one GPU."""
    return read_page(text)[uuid, instance].values


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_version_says_the_same(dialect: str) -> None:
    """The same GPU has the same figures, in the same units, in the words of every version."""
    node = ExporterNode(gpus=(ExporterGpu(uuid=A, pattern=BUSY),), dialect=dialect)
    assert pytest.approx(TRUTH) == values(node.page(100.0))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_identity(dialect: str) -> None:
    """A GPU's labels are read whatever the case of their names."""
    node = ExporterNode(gpus=(ExporterGpu(uuid=A, pattern=BUSY, index=3),), dialect=dialect, host="n7")
    [gpu] = read_page(node.page(100.0)).values()
    bus_id = "00000000:1B:00.0" if DIALECTS[dialect].has_bus_id else None
    found = (gpu.index, gpu.gpu_model, gpu.pci_bus_id, gpu.hosts)
    assert (3, "NVIDIA A100-SXM4-80GB", bus_id, frozenset({"n7"})) == found


@pytest.mark.parametrize("name", FIELDS)
def test_blank_values_are_none(name: str) -> None:
    """None of DCGM's codes for "no value", as integer or double, is a figure; nor are NaN and infinities."""
    codes = [
        *(2**47 + code for code in range(4)),
        *(2**63 - 16 + code for code in range(4)),
        *(2**31 - 16 + code for code in range(4)),
    ]
    texts = [
        *map(str, codes),
        *(f"{float(code):f}" for code in codes),
        *("9.223372036854775807e18", "NaN", "+Inf", "-Inf", "-1"),
    ]
    for text in texts:
        assert {} == values(line(name, text)), text


@pytest.mark.parametrize("text", ["<<<NULL>>>", "N/A", "", "1 2 3 x", "0.5.1", "0_5", '"0.5"', "٠", "1e9999"])
def test_no_number_is_no_value(text: str) -> None:
    """A line whose value is no number says nothing; the others of its GPU go on."""
    page = line("DCGM_FI_DEV_SM_CLOCK", 1410) + line(TENSOR, text)
    assert {"sm_clock_mhz": 1410} == values(page)


@pytest.mark.parametrize("value", [1.74, 1.001, -0.01, 43.21])
def test_a_ratio_beyond_one_is_none(value: float) -> None:
    """A ratio outside 0..1 is not cut down to it, and is never taken for per cent."""
    assert {} == values(line(TENSOR, value))


@pytest.mark.parametrize(("value", "expected"), [(1.00005, 1.0), (-0.00005, 0.0), (0, 0.0), (1, 1.0)])
def test_rounding_is_no_error(value: float, expected: float) -> None:
    """A ratio that is beyond 0 or 1 by no more than rounding is 0 or 1; a true 0 is a value."""
    assert {"tensor_active_ratio": expected} == values(line(TENSOR, value))


@pytest.mark.parametrize(
    ("beside", "expected"),
    [("", None), ("DCGM_FI_DEV_SM_CLOCK", None), ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 0.9)],
)
def test_utilisation_whose_name_had_two_scales(beside: str, expected: float | None) -> None:
    """``…_GPU_UTIL_RATIO``, per cent in DCGM 4.6 and a ratio in 4.7, counts beside a name of 4.7 alone; 0.9
    may be either."""
    page = line("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.9) + (line(beside, 1.41e9) if beside else "")
    assert expected == values(page).get("utilisation_ratio")


def test_help_text_says_nothing_of_units() -> None:
    """``(in %)`` in a site's own help text changes no scale."""
    page = f"# HELP {TENSOR} Tensor (in %).\n# TYPE {TENSOR} gauge\n" + line(TENSOR, 0.4321)
    assert {"tensor_active_ratio": 0.4321} == values(page)


def test_only_the_whole_tensor_pipe_counts() -> None:
    """The pipes for single formats are no part of tensor activity, alone or beside it."""
    parts = "".join(
        line(f"DCGM_FI_PROF_PIPE_TENSOR_{part}_ACTIVE", 0.6) for part in ("IMMA", "HMMA", "DFMA")
    ) + line("DCGM_FI_PROF_HMMA_UTIL_RATIO", 0.6)
    assert {} == read_page(parts)
    assert {"tensor_active_ratio": 0.6} == values(parts + line(TENSOR, 0.6))


def test_old_and_new_name_count_once() -> None:
    """Where a page has a quantity under both names, the older one counts and nothing is added up."""
    assert {"tensor_active_ratio": 0.25} == values(line(NEW_TENSOR, 0.5) + line(TENSOR, 0.25))
    assert {"tensor_active_ratio": 0.5} == values(line(NEW_TENSOR, 0.5) + line(TENSOR, "140737488355328.0"))


def test_copies_for_several_jobs_count_once() -> None:
    """The copies that job mapping makes of a GPU's lines are one value."""
    gpu = ExporterGpu(uuid=A, pattern=BUSY, jobs=("123", "", "123", "456"))
    page = ExporterNode(gpus=(gpu,)).page(100.0)
    assert 4 == page.count(TENSOR + "{")
    assert pytest.approx(TRUTH) == values(page)


def test_copies_that_differ_are_not_believed() -> None:
    """Two values for one GPU's field are none, also under the newer name."""
    page = line(TENSOR, 0.25, more=',hpc_job="1"') + line(TENSOR, 0.5, more=',hpc_job="2"')
    assert {} == values(page)
    assert {} == values(line(NEW_TENSOR, 0.25) + page)


def test_slices_are_devices_of_their_own() -> None:
    """Instances of a GPU are kept apart from each other and from the GPU by their ids; the profile, which may
    be rounded wrongly, is for people."""
    page = (
        line(TENSOR, 0.5, more=',GPU_I_PROFILE="1g.11gb",GPU_I_ID="7"')
        + line(TENSOR, 0.25, more=',GPU_I_PROFILE="1g.11gb",GPU_I_ID="8"')
        + line(TENSOR, 0.75)
    )
    found = {key: gpu.values["tensor_active_ratio"] for key, gpu in read_page(page).items()}
    assert {(A, 7): 0.5, (A, 8): 0.25, (A, None): 0.75} == found
    assert "1g.11gb" == read_page(page)[A, 7].mig_profile


def test_a_slice_has_no_energy() -> None:
    """Power and energy on a slice's lines are its whole GPU's: they are no figures of the slice."""
    slice_ = ExporterGpu(uuid=A, pattern=BUSY, instance=7, profile="3g.40gb")
    found = values(ExporterNode(gpus=(slice_,)).page(100.0), A, 7)
    assert {"power_watts", "energy_joules", "utilisation_ratio"} == set(TRUTH) - set(found)


@pytest.mark.parametrize(
    "foreign",
    [
        'DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{nvlink="3",gpu="0",gpu_uuid="GPU-x"} 5\n',
        'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",device="nvidia0"} 0.5\n',
        'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID=""} 0.5\n',
        'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="<<<NULL>>>"} 0.5\n',
        'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a",uuid="GPU-b"} 0.5\n',
        'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a",UUID="GPU-a"} 0.5\n',
        'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_ID="x"} 0.5\n',
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE 0.5\n",
        'DCGM_FI_DEV_CPU_UTIL{cpu="0"} 0.5\n',
        "go_goroutines 17\n",
    ],
)
def test_lines_of_nobody(foreign: str) -> None:
    """A series that does not say which GPU it is of is of none."""
    assert {} == read_page(foreign)


def test_a_page_that_was_cut_says_nothing() -> None:
    """Without the newline at its end a page's last value may be half a number."""
    page = line(TENSOR, 0.25) + line("DCGM_FI_DEV_POWER_USAGE", 612)
    assert [{}, {}] == [read_page(page[:-1]), read_page(page[:-2])]


def test_movements() -> None:
    """Every series of a GPU counts as movement, also one that no figure comes from; another GPU's does not,
    nor does a label."""
    before = movements(line("DCGM_FI_DEV_MEM_CLOCK", 1593) + line(TENSOR, 0.5, uuid=B))
    other = movements(line("DCGM_FI_DEV_MEM_CLOCK", 1593) + line(TENSOR, 0.6, uuid=B))
    mapped = movements(line("DCGM_FI_DEV_MEM_CLOCK", 1593, more=',hpc_job="7"') + line(TENSOR, 0.5, uuid=B))
    moved = movements(line("DCGM_FI_DEV_MEM_CLOCK", 1592) + line(TENSOR, 0.5, uuid=B))
    assert [True, True, False] == [after[A, None] == before[A, None] for after in (other, mapped, moved)]
    assert [False, True, True] == [after[B, None] == before[B, None] for after in (other, mapped, moved)]


# ---- the table


def test_every_quantity_has_a_name_in_every_generation() -> None:
    """The table knows each quantity by the names of every version that publishes it."""
    old_namespace_lacks = {"throttle_mask"}
    for quantity in QUANTITIES:
        names = names_of(quantity)
        assert any(name.startswith("DCGM_FI_") for name in names)
        lower = any(name.startswith("dcgm_") for name in names)
        assert lower != (quantity in old_namespace_lacks), quantity


def numbers() -> st.SearchStrategy[float]:
    """Any double, and those near the edges."""
    edges = [0.0, 1.0, 100.0, 2.0**31 - 16, 2.0**47, 2.0**63]
    near = st.builds(lambda edge, by: edge + by, st.sampled_from(edges), st.floats(-2, 2))
    return st.one_of(st.floats(), near)


@pytest.mark.property
@given(name=st.sampled_from(sorted(FIELDS)), value=numbers(), base_units=st.booleans())
def test_a_value_is_in_range_or_none(name: str, value: float, base_units: bool) -> None:
    """Whatever number stands on a page, its figure is finite and not negative, and a ratio at most 1."""
    found = canonical(name, value, base_units=base_units)
    assert found is None or 0 <= found < math.inf
    assert found is None or not FIELDS[name].quantity.endswith("_ratio") or found <= 1


# ---- fuzz

PAGES = [
    ExporterNode(
        gpus=(
            ExporterGpu(uuid=A, pattern=BUSY, jobs=("1", "2")),
            ExporterGpu(uuid=B, pattern=BUSY, index=1, instance=7, profile="1g.10gb"),
        ),
        dialect=dialect,
    ).page(100.0)
    for dialect in DIALECTS
]
PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ['"', "\\", "{", "}", ",", "=", "\n", " ", "#", "NaN", "\x00", "\u2028", 'UUID="GPU-', "9" * 99]
    ),
)


@pytest.mark.property
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_damaged_page_invents_nothing(data: st.DataObject) -> None:
    """However a page is damaged, reading it neither fails nor hangs, and a line that was not touched says
    what it said before."""
    lines = data.draw(st.sampled_from(PAGES)).splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    touched = lines[place]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(touched))] * 2)))
    lines[place] = touched[:start] + data.draw(PIECES) + touched[end:]
    whole = read_page("\n".join([*lines[:place], *lines[place + 1 :]]) + "\n")
    damaged = read_page("\n".join(lines) + "\n")
    movements("\n".join(lines))
    for key, gpu in damaged.items():
        for quantity, value in gpu.values.items():
            assert math.isfinite(value)
            if (
                key in whole
                and quantity in whole[key].values
                and touched.partition("{")[0] not in names_of(quantity)
            ):
                assert whole[key].values[quantity] == value


@pytest.mark.property
@settings(max_examples=300, deadline=None)
@given(
    text=st.one_of(
        st.text(), st.lists(PIECES).map("".join), st.binary().map(lambda raw: raw.decode("utf-8", "replace"))
    )
)
def test_any_text_is_a_page_without_gpus_or_one_with(text: str) -> None:
    """Whatever an address serves, reading it does not fail."""
    for prefix in ("", TENSOR + "{", line(TENSOR, 0.5)):
        read_page(prefix + text + "\n")
        movements(prefix + text)
