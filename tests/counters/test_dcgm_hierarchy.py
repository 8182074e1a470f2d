"""Which of DCGM's entities is which GPU, as its discovery prints it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.counters.dcgm_hierarchy import Hierarchy, ListedGpu, listed_gpus, listed_instances
from slurm_ofu.counters.dcgm_rows import Entity

LISTED = """\
2 GPUs found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 3      | Name: NVIDIA A100-SXM4-80GB                                          |
|        | PCI Bus ID: 00000000:18:00.0                                         |
|        | Device UUID: GPU-34bf77d1-c686-6821-79a8-32d326c5039c                |
+--------+----------------------------------------------------------------------+
| 11     | Error: Cannot get device attributes for GPU.                         |
|        | Return: GPU is lost                                                  |
|        | Device UUID: GPU-nobodys                                             |
+--------+----------------------------------------------------------------------+
| 0      | Name: Tesla V100-PCIE-16GB                                           |
|        | PCI Bus ID: 00000000:3E:00.0                                         |
|        | Device UUID: GPU-f5046fa5-3db4-45e8-870a-dc1376becaa5                |
+--------+----------------------------------------------------------------------+
0 NvSwitches found.
+-----------+
| Switch ID |
+-----------+
+-----------+
0 CPUs found.
+--------+----------------------------------------------------------------------+
| CPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 3      | Name: some CPU                                                       |
+--------+----------------------------------------------------------------------+
"""
INSTANCES = """\
+-------------------+--------------------------------------------------------------------+
| Instance Hierarchy                                                                     |
+===================+====================================================================+
| GPU 0             | GPU GPU-f04cff15-f427-9612-3f5e-60a6e0cd2018 (EntityID: 0)         |
| -> I 0/1          | GPU Instance (EntityID: 101)                                       |
|    -> CI 0/1/0    | Compute Instance (EntityID: 100)                                   |
|    -> CI 0/1/1    | Compute Instance (EntityID: 1100)                                  |
| -> I 0/5          | GPU Instance (EntityID: 0)                                         |
+-------------------+--------------------------------------------------------------------+
| GPU 1             | GPU GPU-1a7b269f-8591-c6a5-a274-6f4f1ad9f6b3 (EntityID: 10)        |
| -> I 1/1          | GPU Instance (EntityID: 110)                                       |
+-------------------+--------------------------------------------------------------------+
"""
FIRST, SECOND = "GPU-f04cff15-f427-9612-3f5e-60a6e0cd2018", "GPU-1a7b269f-8591-c6a5-a274-6f4f1ad9f6b3"


def test_gpus_by_uuid() -> None:
    """DCGM's number goes with the UUID, not with the place in the list; a GPU without one is left out."""
    a100 = "GPU-34bf77d1-c686-6821-79a8-32d326c5039c"
    v100 = "GPU-f5046fa5-3db4-45e8-870a-dc1376becaa5"
    expected = {
        a100: ListedGpu(
            number=3, uuid=a100, gpu_model="NVIDIA A100-SXM4-80GB", pci_bus_id="00000000:18:00.0"
        ),
        v100: ListedGpu(number=0, uuid=v100, gpu_model="Tesla V100-PCIE-16GB", pci_bus_id="00000000:3E:00.0"),
    }
    assert expected == listed_gpus(LISTED)


def test_instances_by_nvmls_id() -> None:
    """An instance is found by its GPU's UUID and NVML's id; compute instances are something else."""
    expected = {(FIRST, 1): 101, (FIRST, 5): 0, (SECOND, 1): 110}
    assert expected == listed_instances(INSTANCES)


@pytest.mark.parametrize(
    ("uuid", "parent_uuid", "gpu_instance_id", "expected"),
    [
        (FIRST, None, None, Entity(kind="GPU", number=7)),
        ("GPU-unheard-of", None, None, None),
        ("MIG-x", FIRST, 1, Entity(kind="GPU-I", number=101)),
        ("MIG-x", FIRST, 2, None),
        ("MIG-x", FIRST, None, None),
        (FIRST, SECOND, 5, None),
    ],
)
def test_a_slice_never_gets_its_gpus_figures(
    uuid: str, parent_uuid: str | None, gpu_instance_id: int | None, expected: Entity | None
) -> None:
    """A slice that DCGM does not know has no entity; it is not its whole GPU."""
    known = Hierarchy(gpus={FIRST: ListedGpu(number=7, uuid=FIRST)}, instances=listed_instances(INSTANCES))
    assert expected == known.entity(uuid, parent_uuid, gpu_instance_id)


@pytest.mark.property
@given(st.lists(st.one_of(st.text(), st.sampled_from((LISTED + INSTANCES).splitlines())), max_size=20))
def test_any_text_ends_well(lines: list[str]) -> None:
    """Whatever is printed, each number that is found was in it."""
    text = "\n".join(lines)
    for listed in listed_gpus(text).values():
        assert str(listed.number) in text
        assert listed.uuid in text
    for number in listed_instances(text).values():
        assert f"(EntityID: {number})" in text
