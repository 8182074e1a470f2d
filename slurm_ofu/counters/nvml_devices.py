"""Which GPUs does NVML see, and which MIG slices?

A GPU in MIG mode is listed, and so are its slices (NVML's "MIG devices"), each as a device of its own,
after all GPUs. GPM counts per *GPU instance*: a slice has figures where its compute instance is all of one.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from slurm_ofu.counters.nvml_calls import answer, text
from slurm_ofu.gpu_models import find_model
from slurm_ofu.values import DeviceIdentity

# By NVML_DEVICE_ARCH: Ada, Hopper, Blackwell.
_CORES_PER_SM = {8: 128, 9: 128, 10: 128}
#: Slices that a GPU has in all → NVML_GPU_INSTANCE_PROFILE of the instance over all of it.
_WHOLE_PROFILE = {4: 3, 7: 4, 8: 5}
_PROFILE = re.compile(r"(?:([0-9]+)c\.)?([0-9]+)g\.")

IN_MIG_MODE = "the GPU is in MIG mode: NVML has figures of its slices, not of the whole"
PART_OF_INSTANCE = "NVML counts per GPU instance, and this compute instance is only a part of one"
NO_SHARE = "how much of its GPU the slice is, is not known"
BY_SLICES = "how many SMs the whole GPU has is not known: its share is taken as that of the slices"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    """A device and its handles. ``note``: what is not as usual; ``silent``: hence it has no figures."""

    identity: DeviceIdentity
    handle: Any
    whole: Any  # the handle of the GPU that it is, or is a slice of
    note: str | None = None
    silent: bool = False


def find_devices() -> list[NvmlDevice]:
    """The GPUs that answer, under NVML's own indices, then the slices of those in MIG mode."""
    count = answer("nvmlDeviceGetCount") or 0
    gpus = [gpu for gpu in map(_gpu, range(count)) if gpu is not None]
    slices = [its for gpu in gpus if gpu.silent for its in _slices(gpu)]
    return gpus + [
        replace(its, identity=replace(its.identity, index=count + place)) for place, its in enumerate(slices)
    ]


def _gpu(index: int) -> NvmlDevice | None:
    handle = answer("nvmlDeviceGetHandleByIndex", index)
    uuid = None if handle is None else text(answer("nvmlDeviceGetUUID", handle))
    if uuid is None:
        return None
    pci = answer("nvmlDeviceGetPciInfo", handle)
    cores_per_sm = _CORES_PER_SM.get(answer("nvmlDeviceGetArchitecture", handle))
    cores = answer("nvmlDeviceGetNumGpuCores", handle)
    identity = DeviceIdentity(
        index=index,
        uuid=uuid,
        minor=answer("nvmlDeviceGetMinorNumber", handle),
        pci_bus_id=None if pci is None else text(pci.busId),
        gpu_model=text(answer("nvmlDeviceGetName", handle)),
        sm_count=None if cores is None or cores_per_sm is None else cores // cores_per_sm,
    )
    has_mig = (answer("nvmlDeviceGetMigMode", handle) or [0])[0] == 1
    note = IN_MIG_MODE if has_mig else None
    return NvmlDevice(identity=identity, handle=handle, whole=handle, note=note, silent=has_mig)


def _slices(gpu: NvmlDevice) -> list[NvmlDevice]:
    slots = answer("nvmlDeviceGetMaxMigDeviceCount", gpu.handle) or 0
    found = list(_answering_slices(gpu, slots))
    in_instance = Counter(its.identity.gpu_instance_id for its in found)
    return [
        _silent(its, PART_OF_INSTANCE) if in_instance[its.identity.gpu_instance_id] > 1 else its
        for its in found
    ]


def _silent(its: NvmlDevice, note: str) -> NvmlDevice:
    """A slice without figures, also from sources that know slices by their instance."""
    identity = replace(its.identity, gpu_instance_id=None)
    return replace(its, identity=identity, note=note, silent=True)


def _answering_slices(gpu: NvmlDevice, slots: int) -> Iterator[NvmlDevice]:
    """There may be holes among the slots."""
    whole_sms = _whole_sm_count(gpu, slots)
    for slot in range(slots):
        handle = answer("nvmlDeviceGetMigDeviceHandleByIndex", gpu.handle, slot)
        its = None if handle is None else _slice(gpu, handle, slots, whole_sms)
        if its is not None:
            yield its


def _slice(gpu: NvmlDevice, handle: Any, slots: int, whole_sms: int | None) -> NvmlDevice | None:
    uuid = text(answer("nvmlDeviceGetUUID", handle))
    instance = answer("nvmlDeviceGetGpuInstanceId", handle)
    attributes = answer("nvmlDeviceGetAttributes_v2", handle)
    _, _, profile = (text(answer("nvmlDeviceGetName", handle)) or "").partition(" MIG ")
    sms = attributes.multiprocessorCount if attributes is not None else 0
    of_compute, of_gpu = _slice_counts(attributes, profile)
    share, doubt = _share(sms, whole_sms, of_compute, slots)
    if uuid is None or instance is None:
        return None
    identity = DeviceIdentity(
        index=0,  # numbered when all are found
        uuid=uuid,
        gpu_model=gpu.identity.gpu_model,
        sm_count=sms or None,
        sm_share_ratio=share,
        mig_profile=profile or None,
        parent_uuid=gpu.identity.uuid,
        gpu_instance_id=instance,
    )
    its = NvmlDevice(identity=identity, handle=handle, whole=gpu.handle, note=doubt)
    if of_compute != of_gpu:
        return _silent(its, PART_OF_INSTANCE)
    return _silent(its, NO_SHARE) if doubt == NO_SHARE else its


def _whole_sm_count(gpu: NvmlDevice, slots: int) -> int | None:
    """NVML does not say it of a GPU in MIG mode; the catalogue does, and the largest possible instance."""
    model = find_model(gpu.identity.gpu_model)
    profile = _WHOLE_PROFILE.get(slots)
    info = None
    if profile is not None:
        info = answer("nvmlDeviceGetGpuInstanceProfileInfo", gpu.handle, profile, 1)
    known = [model.sm_count if model else None, info.multiprocessorCount if info is not None else None]
    return max((count for count in known if count), default=None)


def _slice_counts(attributes: Any, profile: str) -> tuple[int, int]:
    """How many slices the compute instance has, and its GPU instance; 0 where nothing says it."""
    if attributes is not None and attributes.gpuInstanceSliceCount:
        return attributes.computeInstanceSliceCount, attributes.gpuInstanceSliceCount
    named = _PROFILE.match(profile)
    if named is None:
        return 0, 0
    return int(named[1] or named[2]), int(named[2])


def _share(sms: int, whole_sms: int | None, slices: int, slots: int) -> tuple[float, str | None]:
    """SMs of SMs; else slices of slices, which is near it and never makes more than one GPU of them all.

    What cannot be weighed has no figures, and the time it was held is that of the smallest slice.
    """
    if whole_sms is not None and 0 < sms <= whole_sms:
        return sms / whole_sms, None
    if 0 < slices <= slots:
        return slices / slots, BY_SLICES
    return 1 / slots, NO_SHARE
