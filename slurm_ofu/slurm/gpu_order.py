"""Which GPUs does a job own? Positions in Slurm's device list, resolved to GPUs, never by a guess.

SLURM_JOB_GPUS counts in the order of the node's Slurm device list: neither minor numbers nor NVML's indices.
The first rule that has something to say about a position decides it, also where it decides "unmapped":

1. a full UUID in CUDA_VISIBLE_DEVICES (Slurm 25.11 and later can write them; MIG slices have long been so,
   and where slices are numbered together with GPUs nothing else but the site's map tells them),
2. the site's own map,
3. the File= lines of gres.conf,
4. AutoDetect, where every order that it may have used is the same,
5. plain order, where minor number and index are the same for every GPU.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from slurm_ofu.slurm.gres_conf import NodeGres
from slurm_ofu.values import DeviceIdentity

MinorOf = Callable[[str], int | None]

# Slurm allows 1024 devices with files on a node.
_POSITIONS = 1024
_POSITION = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
# How drivers before R470 name a MIG slice: its GPU, GPU instance, compute instance.
_OLD_SLICE = re.compile(r"mig-(gpu-[0-9a-f-]+)/([0-9]{1,4})/([0-9]{1,4})")
_DEVICE_FILE = re.compile(r"/dev/nvidia([0-9]{1,6})")
_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One position of a job and its GPU; without one, `why_not` says why, and `how` which rule said so."""

    position: int
    device: DeviceIdentity | None
    how: str  # cuda_uuid, gpu_map, gres_file, autodetect, plain_order
    why_not: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """What is known of the node; shared by the rules."""

    gpu_map: Mapping[int, str]
    gres: NodeGres
    devices: tuple[DeviceIdentity, ...]
    gpu_count: int | None
    minor_of: MinorOf | None


def parse_positions(text: str) -> tuple[int, ...] | None:
    """SLURM_JOB_GPUS, as in `0,1` or `0-3,6`, in its order; None for anything else, and for no text."""
    positions: list[int] = []
    for piece in text.split(","):
        match = _POSITION.fullmatch(piece.strip())
        if match is None:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if not low <= high < _POSITIONS:
            return None
        positions.extend(range(low, high + 1))
    return tuple(positions) if len(set(positions)) == len(positions) else None


def assign(
    positions: tuple[int, ...],
    *,
    cuda_visible_devices: str,
    gpu_map: Mapping[int, str],
    gres: NodeGres,
    devices: tuple[DeviceIdentity, ...],
    node_gpu_count: int | None,
    minor_of: MinorOf | None = None,
) -> tuple[Assignment, ...]:
    """One assignment per position, in order; no GPU is assigned twice.

    `cuda_visible_devices` is the hook's ("" where absent). `gpu_map` is the site's for this node: position to
    UUID, PCI bus id or /dev/nvidiaN. `node_gpu_count` is what slurm.conf gives the node. `minor_of` gives the
    minor number of a device file whose name does not show it, None where it cannot.
    """
    node = _Node(gpu_map=gpu_map, gres=gres, devices=devices, gpu_count=node_gpu_count, minor_of=minor_of)
    names = [name.strip() for name in cuda_visible_devices.split(",")]
    if not any(_is_uuid(name) for name in names):
        return _without_repeats([_by_node(position, node) for position in positions])
    if len(names) != len(positions):
        why = f"CUDA_VISIBLE_DEVICES names {len(names)} GPUs, SLURM_JOB_GPUS {len(positions)}"
        return tuple(Assignment(position=p, device=None, how="cuda_uuid", why_not=why) for p in positions)
    return _without_repeats(
        [
            _by_uuid(position, name, devices) if _is_uuid(name) else _by_node(position, node)
            for position, name in zip(positions, names, strict=True)
        ]
    )


def _is_uuid(name: str) -> bool:
    return name.upper().startswith(("GPU-", "MIG-"))


def _by_uuid(position: int, name: str, devices: tuple[DeviceIdentity, ...]) -> Assignment:
    """Rule 1. As for CUDA, the beginning of a UUID will do where it fits one GPU only; not for MIG slices."""
    wanted = name.lower()
    exact = [device for device in devices if device.uuid.lower() == wanted]
    if wanted.startswith("mig-"):
        # A slice's parent GPU is not the slice: its counters include the other slices' jobs.
        found = exact or _by_instance(wanted, devices)
        return _decided(position, found, "cuda_uuid", f"mig: no single slice seen here is {name}")
    may_begin = len(wanted) > len("gpu-")
    longer = [device for device in devices if may_begin and device.uuid.lower().startswith(wanted)]
    return _decided(position, exact or longer, "cuda_uuid", f"no single GPU here has the UUID {name}")


def _by_instance(wanted: str, devices: tuple[DeviceIdentity, ...]) -> list[DeviceIdentity]:
    """The slices of a GPU instance, by a slice's old three-part name: several where it has several compute
    instances, which NVML's UUIDs do not tell apart."""
    match = _OLD_SLICE.fullmatch(wanted)
    return [
        device
        for device in devices
        if match is not None
        and device.gpu_instance_id == int(match[2])
        and (device.parent_uuid or "").lower() == match[1]
    ]


def _by_node(position: int, node: _Node) -> Assignment:
    """Rules 2 to 5, for a position without a UUID of its own."""
    if position in node.gpu_map:
        name = node.gpu_map[position]
        found = [device for device in node.devices if _is_named(device, name)]
        return _decided(position, found, "gpu_map", f"the GPU map says {name}; no single GPU here is that")
    if node.gres.files is not None or node.gres.problem is not None:
        return _by_file(position, node)
    how = "plain_order" if node.gres.autodetect is None else "autodetect"
    why_not = _order_doubt(node)
    if why_not is None and position >= len(node.devices):
        why_not = f"position {position} is past the {len(node.devices)} GPUs seen"
    if why_not is not None:
        return Assignment(position=position, device=None, how=how, why_not=why_not)
    return Assignment(position=position, device=_by_index(node.devices)[position], how=how)


def _by_file(position: int, node: _Node) -> Assignment:
    """Rule 3: position, device file, minor number, GPU."""
    files = node.gres.files or ()
    why_not = node.gres.problem
    if why_not is None and position >= len(files):
        why_not = f"position {position} is past the {len(files)} files of gres.conf"
    if why_not is None and "," in files[position]:
        why_not = "mig: gres.conf gives the position several files, as for a MIG slice"
    if why_not is None and node.gres.autodetect is not None:
        why_not = _listing_doubt(node)
    if why_not is not None:
        return Assignment(position=position, device=None, how="gres_file", why_not=why_not)
    found = _with_file(files[position], node)
    absent = f"no single GPU here has the minor number of {files[position]}"
    return _decided(position, found, "gres_file", absent)


def _listing_doubt(node: _Node) -> str | None:
    """Why File= lines beside AutoDetect do not give the order, None where they do.

    slurmd sorts such a list anew (gres_gpu.c, _merge_system_gres_conf; seen with `slurmd -G`): by file name,
    then by the -1 in each GPU's links. AutoDetect=nvml always fills the links in, which makes it NVML's
    order; others do not, which leaves the order of file names.
    """
    found = [_with_file(file, node) for file in node.gres.files or ()]
    listed = [devices[0] for devices in found if len(devices) == 1]
    if len(listed) < len(found):
        return "AutoDetect sorts gres.conf's files anew, and some of them are no GPU seen here"
    if listed != list(_by_index(listed)):
        return "AutoDetect sorts gres.conf's files anew: their order there is not the GPUs' own"
    return None if node.gres.autodetect == "nvml" else _minors_doubt(listed)


def _order_doubt(node: _Node) -> str | None:
    """Why neither AutoDetect nor plain order says which GPU is which; None where it does.

    AutoDetect=nvml gives NVML's order (see `_listing_doubt`) as long as Slurm lists every GPU, each once:
    with fewer in slurm.conf it keeps the lowest file names, with MIG it lists slices. AutoDetect=nvidia
    gives the order of file names, and AutoDetect=full is either of the two.
    """
    autodetect = node.gres.autodetect
    if [device.index for device in _by_index(node.devices)] != list(range(len(node.devices))):
        return "the indices of the GPUs seen have gaps: some GPUs are not seen"
    if any(device.uuid.upper().startswith("MIG-") for device in node.devices):
        return "mig: MIG slices are among the GPUs, and Slurm numbers slices"
    if node.gpu_count is not None and node.gpu_count != len(node.devices):
        return f"slurm.conf gives the node {node.gpu_count} GPUs, {len(node.devices)} are seen"
    if autodetect is None:
        same = all(device.minor == device.index for device in node.devices)
        return None if same else "nothing gives the order of the GPUs, and minor numbers are not NVML's order"
    if node.gpu_count is None:
        return f"AutoDetect={autodetect}, and how many GPUs slurm.conf gives the node is not known"
    if autodetect == "nvml":
        return None
    if autodetect not in ("nvidia", "full"):
        return f"AutoDetect={autodetect} does not number NVIDIA GPUs"
    return _minors_doubt(node.devices)


def _minors_doubt(devices: Iterable[DeviceIdentity]) -> str | None:
    """Why the order of file names is not NVML's order."""
    minors = [device.minor for device in _by_index(devices)]
    known = [minor for minor in minors if minor is not None]
    if known == minors and known == sorted(set(known)):
        return None
    return "AutoDetect: the order of minor numbers is unknown or not NVML's order"


def _with_file(file: str, node: _Node) -> list[DeviceIdentity]:
    """The GPUs with the minor number that a device file shows: by its name, otherwise by `minor_of`."""
    match = _DEVICE_FILE.fullmatch(file)
    minor = int(match[1]) if match else node.minor_of(file) if node.minor_of else None
    return [] if minor is None else [device for device in node.devices if device.minor == minor]


def _is_named(device: DeviceIdentity, name: str) -> bool:
    """Is this the GPU that an entry of the site's map names?"""
    if match := _DEVICE_FILE.fullmatch(name):
        return device.minor == int(match[1])
    if _is_uuid(name):
        return device.uuid.lower() == name.lower()
    return _pci(name) is not None and device.pci_bus_id is not None and _pci(name) == _pci(device.pci_bus_id)


def _pci(text: str) -> tuple[int, ...] | None:
    """A PCI bus id as numbers: NVML writes 00000000:3B:00.0, Linux 0000:3b:00.0, people 3b:00."""
    match = _PCI.fullmatch(text.strip())
    return tuple(int(part or "0", 16) for part in match.groups()) if match else None


def _by_index(devices: Iterable[DeviceIdentity]) -> tuple[DeviceIdentity, ...]:
    return tuple(sorted(devices, key=lambda device: device.index))


def _decided(position: int, found: list[DeviceIdentity], how: str, absent: str) -> Assignment:
    """The GPU, where there is exactly one."""
    if len(found) == 1:
        return Assignment(position=position, device=found[0], how=how)
    return Assignment(position=position, device=None, how=how, why_not=absent)


def _without_repeats(assignments: list[Assignment]) -> tuple[Assignment, ...]:
    """Takes a GPU that two positions came to from both: at least one of them is wrong."""
    times = Counter(a.device for a in assignments if a.device is not None)
    return tuple(
        replace(a, device=None, why_not=f"several positions lead to the same GPU, {a.device.uuid}")
        if a.device is not None and times[a.device] > 1
        else a
        for a in assignments
    )
