"""What ``dcgmi discovery`` prints → which of DCGM's entities is which GPU.

``-l`` lists GPUs, with a number that is DCGM's own, and ``-c`` the instances (MIG) on them, whose entity
numbers are DCGM's own too: ``I 1/2`` is NVML's GPU 1, instance 2, and ``EntityID`` the number for ``dmon``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_ofu.counters.dcgm_rows import Entity

_NAME = re.compile(r"\|\s*([0-9]{1,9})\s*\|\s*Name:\s*(.*?)\s*\|")
_BUS = re.compile(r"PCI Bus ID:\s*([0-9A-Fa-f:.]+)")
_UUID = re.compile(r"Device UUID:\s*(GPU-[0-9A-Za-z-]+)")
_PARENT = re.compile(r"\|\s*GPU\s+[0-9]+\s*\|\s*GPU\s+(GPU-[0-9A-Za-z-]+)\s+\(EntityID:\s*([0-9]{1,9})\)")
_INSTANCE = re.compile(
    r"\|\s*->\s*I\s+[0-9]+/([0-9]{1,9})\s*\|\s*GPU Instance\s+\(EntityID:\s*([0-9]{1,9})\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGpu:
    """A GPU that DCGM knows."""

    number: int
    uuid: str
    gpu_model: str | None = None
    pci_bus_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """DCGM's entities by what NVML calls them."""

    gpus: Mapping[str, ListedGpu] = field(default_factory=dict)  # UUID → GPU
    instances: Mapping[tuple[str, int], int] = field(default_factory=dict)  # (UUID, NVML's instance) → entity

    def entity(self, uuid: str, parent_uuid: str | None, gpu_instance_id: int | None) -> Entity | None:
        """Of a GPU or, with a parent, of a MIG slice of it; ``None`` where DCGM does not know it."""
        if parent_uuid is None:
            listed = self.gpus.get(uuid)
            return None if listed is None else Entity(kind="GPU", number=listed.number)
        number = None if gpu_instance_id is None else self.instances.get((parent_uuid, gpu_instance_id))
        return None if number is None else Entity(kind="GPU-I", number=number)


def listed_gpus(text: str) -> dict[str, ListedGpu]:
    """``dcgmi discovery -l``. A GPU whose UUID it does not tell is left out."""
    found: dict[str, ListedGpu] = {}
    number, name, bus = None, None, None
    for line in text.splitlines():
        if head := _NAME.match(line.strip()):
            number, name, bus = int(head[1]), head[2] or None, None
        elif here := _BUS.search(line):
            bus = here[1]
        elif (its := _UUID.search(line)) and number is not None:
            found[its[1]] = ListedGpu(number=number, uuid=its[1], gpu_model=name, pci_bus_id=bus)
            number = None
    return found


def listed_instances(text: str) -> dict[tuple[str, int], int]:
    """``dcgmi discovery -c``: (the GPU's UUID, NVML's instance id) → DCGM's entity number."""
    found: dict[tuple[str, int], int] = {}
    parent = None
    for line in text.splitlines():
        if gpu := _PARENT.match(line.strip()):
            parent = gpu[1]
        elif (instance := _INSTANCE.match(line.strip())) and parent is not None:
            found[parent, int(instance[1])] = int(instance[2])
    return found
