"""Which GPUs a job owns: every rule, every refusal, and the laws that no guess may break."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.slurm.gpu_order import Assignment, assign, parse_positions
from slurm_ofu.slurm.gres_conf import NodeGres
from slurm_ofu.values import DeviceIdentity

NOTHING_KNOWN = NodeGres()
NVML = NodeGres(autodetect="nvml")


def gpu(index: int, minor: int | None, *, uuid: str | None = None) -> DeviceIdentity:
    bus = f"00000000:{0x10 + index:02X}:00.0"
    return DeviceIdentity(index=index, uuid=uuid or f"GPU-{index}aaa-bbbb", minor=minor, pci_bus_id=bus)


def gpus(*minors: int | None) -> tuple[DeviceIdentity, ...]:
    """GPUs in NVML's order, by their minor numbers."""
    return tuple(gpu(index, minor) for index, minor in enumerate(minors))


def files(*minors: int, autodetect: str | None = None) -> NodeGres:
    return NodeGres(files=tuple(f"/dev/nvidia{minor}" for minor in minors), autodetect=autodetect)


def run(
    positions: tuple[int, ...],
    devices: tuple[DeviceIdentity, ...],
    gres: NodeGres = NOTHING_KNOWN,
    *,
    cuda: str = "",
    gpu_map: dict[int, str] | None = None,
    count: int | None = None,
) -> tuple[Assignment, ...]:
    return assign(
        positions,
        cuda_visible_devices=cuda,
        gpu_map=gpu_map or {},
        gres=gres,
        devices=devices,
        node_gpu_count=count,
    )


def indices(assignments: tuple[Assignment, ...]) -> list[int | None]:
    return [None if a.device is None else a.device.index for a in assignments]


AMD_HOST = gpus(4, 5, 6, 7, 2, 3, 0, 1)
PLAIN = gpus(0, 1, 2, 3)


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("0,1", (0, 1)), ("0-3", (0, 1, 2, 3)), ("5", (5,)), ("6,0-1", (6, 0, 1)), (" 0, 1 ", (0, 1)),
        ("", None), ("0,", None), ("a", None), ("-1", None), ("1-0", None), ("0,0", None), ("0,0-1", None),
        ("GPU-1", None), ("0-99999", None), ("1024", None), ("(null)", None), ("²", None),
    ],
)  # fmt: skip
def test_positions_of_slurm_job_gpus(text: str, positions: tuple[int, ...] | None) -> None:
    """A list of numbers and ranges gives positions in its order; anything else gives none."""
    assert positions == parse_positions(text)


@pytest.mark.parametrize(
    ("positions", "devices", "gres", "cuda", "gpu_map", "count", "expected"),
    [
        # C28a: position 0, minors [4,5,6,7,2,3,0,1]: nvidia0 is NVML 6
        ((0,), AMD_HOST, files(0, 1, 2, 3, 4, 5, 6, 7), "0", {}, 8, [6]),
        # C28b: File=/dev/nvidia[1,3]: positions 0,1 are minors 1,3
        ((0, 1), PLAIN, files(1, 3), "0,1", {}, 2, [1, 3]),
        # lines in the order nvidia3,2,1,0: position 0 is nvidia3
        ((0, 3), PLAIN, files(3, 2, 1, 0), "0,3", {}, 4, [3, 0]),
        # C29: UUIDs go before everything else
        ((0, 1), PLAIN, files(0, 1, 2, 3), "GPU-3aaa-bbbb,GPU-1aaa-bbbb", {0: "/dev/nvidia0"}, 4, [3, 1]),
        ((0,), PLAIN, files(0, 1, 2, 3), "gpu-3AAA-BBBB", {}, 4, [3]),
        ((0,), PLAIN, NOTHING_KNOWN, "GPU-2", {}, 4, [2]),
        # the map goes before gres.conf, by any of its three kinds of names
        ((0, 1), PLAIN, files(0, 1, 2, 3), "0,1", {0: "GPU-3aaa-bbbb", 1: "/dev/nvidia2"}, 4, [3, 2]),
        ((0, 1), PLAIN, NVML, "", {0: "0000:12:00.0", 1: "13:00"}, 4, [2, 3]),
        ((0, 1), PLAIN, files(2, 3), "", {0: "GPU-0aaa-bbbb"}, 4, [0, 3]),
        # AutoDetect=nvml without File=: NVML's order
        ((0, 3), AMD_HOST, NVML, "0,3", {}, 8, [0, 3]),
        # AutoDetect=nvml beside File=: only where sorting changes nothing
        ((0, 1), PLAIN, files(1, 3, autodetect="nvml"), "0,1", {}, 2, [1, 3]),
        ((0,), gpus(1, 0), files(1, 0, autodetect="nvml"), "0", {}, 2, [0]),
        # AutoDetect=nvidia and full: where minor numbers are in NVML's order
        ((1,), PLAIN, NodeGres(autodetect="nvidia"), "1", {}, 4, [1]),
        ((1,), gpus(1, 3), NodeGres(autodetect="full"), "1", {}, 2, [1]),
        # plain order
        ((0, 2), PLAIN, NOTHING_KNOWN, "0,2", {}, 4, [0, 2]),
        ((0, 2), PLAIN, NOTHING_KNOWN, "NoDevFiles", {}, None, [0, 2]),
        ((), PLAIN, NOTHING_KNOWN, "", {}, 4, []),
        # a plain GPU beside a MIG slice in one job
        ((0, 1), PLAIN, files(0, 1), "0,MIG-265a219d-a49f-578a-825d-222c72699c16", {}, 4, [0, None]),
    ],
)
def test_resolves(
    positions: tuple[int, ...],
    devices: tuple[DeviceIdentity, ...],
    gres: NodeGres,
    cuda: str,
    gpu_map: dict[int, str],
    count: int | None,
    expected: list[int | None],
) -> None:
    """Each rule gives the GPU that Slurm meant, in the order of the rules."""
    found = run(positions, devices, gres, cuda=cuda, gpu_map=gpu_map, count=count)
    assert expected == indices(found)


@pytest.mark.parametrize(
    ("devices", "gres", "cuda", "gpu_map", "count", "how", "reason"),
    [
        (PLAIN, files(0), "GPU-gone", {}, 4, "cuda_uuid", "no single GPU here has the UUID GPU-gone"),
        (PLAIN, files(0), "GPU-", {}, 4, "cuda_uuid", "no single GPU"),
        (
            (gpu(0, 0, uuid="GPU-ab1"), gpu(1, 1, uuid="GPU-ab2")),
            files(0),
            "GPU-ab",
            {},
            2,
            "cuda_uuid",
            "no single",
        ),
        (PLAIN, files(0), "GPU-0aaa-bbbb,GPU-1aaa-bbbb", {}, 4, "cuda_uuid", "names 2 GPUs"),
        (PLAIN, files(0), "MIG-265a219d-a49f-578a-825d-222c72699c16", {}, 4, "cuda_uuid", "mig"),
        (PLAIN, files(0), "MIG-GPU-0aaa-bbbb/3/0", {0: "GPU-0aaa-bbbb"}, 4, "cuda_uuid", "mig"),
        (PLAIN, files(0), "0", {0: "GPU-gone"}, 4, "gpu_map", "GPU-gone"),
        (PLAIN, files(0), "0", {0: "the first one"}, 4, "gpu_map", "the first one"),
        (PLAIN, files(0), "0", {0: "/dev/nvidia9"}, 4, "gpu_map", "/dev/nvidia9"),
        (gpus(None, None), files(0, 1), "0", {}, 2, "gres_file", "minor number"),
        (PLAIN, files(9), "0", {}, 4, "gres_file", "minor number"),
        (PLAIN, NodeGres(files=()), "0", {}, 4, "gres_file", "past the 0 files"),
        (
            PLAIN,
            NodeGres(files=("/dev/nvidia0,/dev/nvidia-caps/nvidia-cap1",)),
            "0",
            {},
            4,
            "gres_file",
            "mig",
        ),
        (PLAIN, NodeGres(files=("/srv/dev/nvidia0",)), "0", {}, 4, "gres_file", "minor number"),
        (PLAIN, NodeGres(problem="gres.conf: broken"), "0", {}, 4, "gres_file", "gres.conf: broken"),
        (AMD_HOST, files(0, 1, 2, 3, 4, 5, 6, 7, autodetect="nvml"), "0", {}, 8, "gres_file", "sorts"),
        (PLAIN, files(0, 9, autodetect="nvml"), "0", {}, 2, "gres_file", "no GPU seen here"),
        (gpus(1, 0), files(1, 0, autodetect="nvidia"), "0", {}, 2, "gres_file", "minor numbers"),
        (PLAIN, NVML, "0", {}, None, "autodetect", "not known"),
        (PLAIN, NVML, "0", {}, 8, "autodetect", "8 GPUs, 4 are seen"),
        (AMD_HOST, NodeGres(autodetect="nvidia"), "0", {}, 8, "autodetect", "minor numbers"),
        (gpus(None), NodeGres(autodetect="full"), "0", {}, 1, "autodetect", "minor numbers"),
        (PLAIN, NodeGres(autodetect="rsmi"), "0", {}, 4, "autodetect", "does not number NVIDIA"),
        (AMD_HOST, NOTHING_KNOWN, "0", {}, 8, "plain_order", "not NVML's order"),
        (gpus(None), NOTHING_KNOWN, "0", {}, 1, "plain_order", "not NVML's order"),
        (PLAIN, NOTHING_KNOWN, "0", {}, 3, "plain_order", "3 GPUs, 4 are seen"),
        ((gpu(1, 1),), NOTHING_KNOWN, "0", {}, None, "plain_order", "gaps"),
        ((), NOTHING_KNOWN, "0", {}, None, "plain_order", "past the 0 GPUs"),
        ((*PLAIN, gpu(4, 4, uuid="MIG-1")), NVML, "0", {}, 5, "autodetect", "mig"),
    ],
)
def test_refuses_to_guess(
    devices: tuple[DeviceIdentity, ...],
    gres: NodeGres,
    cuda: str,
    gpu_map: dict[int, str],
    count: int | None,
    how: str,
    reason: str,
) -> None:
    """Where the rule that applies is in doubt, the position is unmapped, and says why."""
    (found,) = run((0,), devices, gres, cuda=cuda, gpu_map=gpu_map, count=count)
    assert (None, how, True) == (found.device, found.how, reason in (found.why_not or ""))


def test_mig_position_never_indexes_nvml() -> None:
    """C30: one plain GPU and one split in seven, position 5: unmapped with the UUID and without it."""
    two = gpus(0, 1)
    for cuda in ("MIG-265a219d-a49f-578a-825d-222c72699c16", "5"):
        for gres in (NVML, NOTHING_KNOWN, files(0, 1)):
            assert [None] == indices(run((5,), two, gres, cuda=cuda, count=8))


def slice_of(parent: DeviceIdentity, index: int, instance: int, uuid: str) -> DeviceIdentity:
    """A MIG slice as the counter source lists it, after all GPUs."""
    return DeviceIdentity(index=index, uuid=uuid, parent_uuid=parent.uuid, gpu_instance_id=instance)


#: One plain GPU, and one split in four: two of the slices share a GPU instance.
MIXED = (
    *gpus(0, 1),
    slice_of(PLAIN[1], 2, 9, "MIG-265a219d-a49f-578a-825d-222c72699c16"),
    slice_of(PLAIN[1], 3, 13, "MIG-5c2a8f4c-0f5e-5d0b-a3f4-0c1b9ad3d001"),
    slice_of(PLAIN[1], 4, 2, "MIG-5c2a8f4c-0f5e-5d0b-a3f4-0c1b9ad3d002"),
    slice_of(PLAIN[1], 5, 2, "MIG-5c2a8f4c-0f5e-5d0b-a3f4-0c1b9ad3d003"),
)


@pytest.mark.parametrize(
    ("positions", "cuda", "expected"),
    [
        ((0,), "MIG-265a219d-a49f-578a-825d-222c72699c16", [2]),
        ((3,), "mig-265A219D-a49f-578a-825d-222c72699c16", [2]),
        # Several, in the order of the variable, not of the positions.
        (
            (5, 2),
            "MIG-5c2a8f4c-0f5e-5d0b-a3f4-0c1b9ad3d001,MIG-265a219d-a49f-578a-825d-222c72699c16",
            [3, 2],
        ),
        # The old three-part name: GPU, GPU instance, compute instance.
        ((1,), "MIG-GPU-1aaa-bbbb/9/0", [2]),
        ((1,), "MIG-GPU-1AAA-BBBB/13/0", [3]),
        # Two compute instances in one GPU instance: which of them is 0, NVML's UUIDs do not say.
        ((1,), "MIG-GPU-1aaa-bbbb/2/0", [None]),
        ((1,), "MIG-GPU-0aaa-bbbb/9/0", [None]),
        ((1,), "MIG-GPU-1aaa-bbbb/9", [None]),
        ((1,), "MIG-265a219d", [None]),
        ((1,), "MIG-", [None]),
        # A plain GPU of a mixed node by its UUID; by number nothing says which it is.
        ((0, 3), "GPU-0aaa-bbbb,MIG-265a219d-a49f-578a-825d-222c72699c16", [0, 2]),
        ((0, 3), "0,MIG-265a219d-a49f-578a-825d-222c72699c16", [None, 2]),
    ],
)
def test_slices_by_their_names(positions: tuple[int, ...], cuda: str, expected: list[int | None]) -> None:
    """C29: a MIG slice is found by its UUID or old three-part name, whatever its position; never a GPU."""
    assert expected == indices(run(positions, MIXED, NVML, cuda=cuda, count=5))


@pytest.mark.parametrize("gres", [NVML, NOTHING_KNOWN, NodeGres(autodetect="full")])
def test_slices_by_number_are_unmapped(gres: NodeGres) -> None:
    """C30: where slices are among the devices Slurm numbers those: no number says which device it is."""
    assert [None] * 5 == indices(run((0, 1, 2, 3, 4), MIXED, gres, cuda="0,1,2,3,4", count=5))


def test_the_sites_map_and_gres_conf_hold_beside_slices() -> None:
    """A site's map may name a slice by its UUID; a plain GPU's own file in gres.conf is still its minor."""
    gres = NodeGres(files=("/dev/nvidia0", "/dev/nvidia1,/dev/nvidia-caps/nvidia-cap12"))
    named = {1: "MIG-265a219d-a49f-578a-825d-222c72699c16"}
    assert [0, None] == indices(run((0, 1), MIXED, gres, cuda="0,1", count=2))
    assert [0, 2] == indices(run((0, 1), MIXED, gres, cuda="0,1", gpu_map=named, count=2))


def test_mig_device_that_is_seen_is_taken() -> None:
    """Old drivers' UUID of a slice is its three-part name: a device like another."""
    slice_ = gpu(2, None, uuid="MIG-GPU-6e19195c/3/0")
    assert [2] == indices(run((0,), (*gpus(0, 1), slice_), files(0), cuda="MIG-GPU-6e19195c/3/0"))


def test_two_positions_on_one_gpu_are_both_unmapped() -> None:
    """Of two positions that lead to one GPU at least one is wrong, so neither counts; a third stays."""
    found = run((0, 1, 2), PLAIN, files(0, 1, 2), gpu_map={1: "/dev/nvidia0"})
    assert [None, None, 2] == indices(found)
    assert "several positions" in (found[0].why_not or "")


def test_minor_of_answers_for_other_file_names() -> None:
    """A device file with another name is resolved by the number that the caller finds out."""
    found = assign(
        (0, 1),
        cuda_visible_devices="0,1",
        gpu_map={},
        gres=NodeGres(files=("/dev/gpu-left", "/dev/gpu-right")),
        devices=PLAIN,
        node_gpu_count=2,
        minor_of={"/dev/gpu-left": 3}.get,
    )
    assert [3, None] == indices(found)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Assignment, ...]:
    """Any job on any node, contradictory ones included; checks the law that is about the input too."""
    minors = draw(st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=5))
    devices = draw(st.permutations(gpus(*minors)))
    names = [
        *(d.uuid for d in devices),
        "0",
        "1",
        "GPU-",
        "GPU-1",
        "MIG-1",
        "/dev/nvidia1",
        "12:00.0",
        "junk",
    ]
    listed = st.lists(
        st.sampled_from(["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/x", "/a,/b"]), max_size=5
    )
    positions = tuple(draw(st.lists(st.integers(0, 6), max_size=5)))
    found = assign(
        positions,
        cuda_visible_devices=",".join(draw(st.lists(st.sampled_from(names), max_size=5))),
        gpu_map=draw(st.dictionaries(st.integers(0, 6), st.sampled_from(names), max_size=3)),
        gres=NodeGres(
            files=draw(st.one_of(st.none(), listed.map(tuple))),
            autodetect=draw(st.sampled_from([None, "nvml", "nvidia", "full", "rsmi"])),
            problem=draw(st.sampled_from([None, None, "broken"])),
        ),
        devices=tuple(devices),
        node_gpu_count=draw(st.one_of(st.none(), st.integers(0, 6))),
        minor_of=draw(st.sampled_from([None, lambda file: 1, lambda file: None])),
    )
    assert list(positions) == [a.position for a in found]
    assert [] == [a for a in found if a.device is not None and a.device not in devices]
    return found


@pytest.mark.property
@given(nodes())
def test_laws_of_any_assignment(found: tuple[Assignment, ...]) -> None:
    """Every position is answered from the GPUs seen, none twice, and a reason stands just where none is."""
    given_out = [a.device.uuid for a in found if a.device is not None]
    assert len(set(given_out)) == len(given_out)
    assert [a.device is None for a in found] == [a.why_not is not None for a in found]
