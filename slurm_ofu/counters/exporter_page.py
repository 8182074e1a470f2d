"""The page of a dcgm-exporter, as text → what it says of each GPU and each MIG slice.

Lines are parsed one by one with the Prometheus project's own parser, so that one broken line loses no more
than its own value. What a page holds twice (an exporter that knows of jobs repeats a GPU's lines for every
job) counts once; copies that differ are not believed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from slurm_ofu.counters.dcgm_fields import FIELDS, Quantity, canonical, has_base_units

#: UUID of the GPU, and NVML's GPU instance id of a slice or ``None`` for the whole GPU.
Key = tuple[str, int | None]

#: Whose a line is, roughly: enough to see what moved since the page before. Figures are parsed properly.
_UUID = re.compile(r'(?:^|,)(?:UUID|uuid)="(GPU-[^"]{1,64})"')
_INSTANCE = re.compile(r',GPU_I_ID="([0-9]{1,5})"')
_PREFIXES = ("DCGM_FI_", "dcgm_")
#: Longer lines are none of an exporter's, and costly to parse.
_LINE_LIMIT = 8192
#: What belongs to the whole GPU, although its slices' lines repeat it.
_WHOLE_GPUS: frozenset[Quantity] = frozenset({"power_watts", "energy_joules", "throttle_mask"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedGpu:
    """One GPU or slice on a page."""

    uuid: str
    gpu_instance_id: int | None = None
    index: int | None = None  # label gpu
    gpu_model: str | None = None
    pci_bus_id: str | None = None
    mig_profile: str | None = None  # as printed; may be rounded wrongly
    hosts: frozenset[str] = frozenset()
    values: Mapping[Quantity, float]
    must_move: bool = False  # shows what moves on every living GPU: an energy counter, or power

    @property
    def key(self) -> Key:
        """What tells it from every other GPU and slice."""
        return self.uuid, self.gpu_instance_id


@dataclass(slots=True)
class _Lines:
    """What was read of one GPU so far."""

    labels: Mapping[str, str]
    hosts: set[str] = field(default_factory=set)
    copies: dict[str, set[float]] = field(default_factory=dict)  # metric → its values


def labels_of(given: Mapping[str, str]) -> dict[str, str]:
    """Labels under names in lower case: versions differ in UUID, Hostname and others. Empty ones are none."""
    return {name.lower(): value for name, value in given.items() if value}


def key_of(labels: Mapping[str, str]) -> Key | None:
    """Whose a series is, by :func:`labels_of`; ``None`` for a link, a switch, a CPU or nonsense."""
    uuid, instance = labels.get("uuid"), labels.get("gpu_i_id")
    if uuid is None or not uuid.startswith("GPU-"):
        return None
    if instance is None:
        return uuid, None
    return (
        (uuid, int(instance)) if instance.isascii() and instance.isdecimal() and len(instance) < 6 else None
    )


def read_page(text: str, uuid: str | None = None) -> dict[Key, PublishedGpu]:
    """Every GPU and slice of a page, or those of one GPU alone; nothing of a page that was cut short."""
    if not text.endswith("\n"):
        return {}
    found: dict[Key, _Lines] = {}
    for name, given, value in _figures(text, uuid):
        labels = labels_of(given)
        key = key_of(labels)
        if key is None or len(labels) < sum(map(bool, given.values())):  # two labels that differ in case
            continue
        lines = found.setdefault(key, _Lines(labels))
        lines.hosts.add(labels.get("hostname", ""))
        lines.copies.setdefault(name, set()).add(value)
    return {key: _gpu(key, lines) for key, lines in found.items()}


def movements(text: str) -> dict[Key, int]:
    """One number per GPU and slice that stands for all its series' values: the same while none moves."""
    found: dict[Key, set[tuple[str, str]]] = {}
    for line in text.split("\n"):
        if line.startswith(_PREFIXES) and len(line) <= _LINE_LIMIT:
            name, _, rest = line.partition("{")
            labels, _, value = rest.rpartition("}")
            uuid, instance = _UUID.search(labels), _INSTANCE.search(labels)
            if uuid is not None:
                key = uuid[1], int(instance[1]) if instance else None
                found.setdefault(key, set()).add((name, value))
    return {key: hash(frozenset(series)) for key, series in found.items()}


def _figures(text: str, uuid: str | None) -> Iterator[tuple[str, Mapping[str, str], float]]:
    mark = "" if uuid is None else f'"{uuid}"'
    for line in text.split("\n"):
        if line.partition("{")[0] not in FIELDS or mark not in line or len(line) > _LINE_LIMIT:
            continue
        value = line.rpartition("}")[2]
        if "_" in value or not value.isascii():
            continue  # what Python, and so the parser, takes for numbers beyond those of the format
        try:
            # A line alone is a family of one. Its type, which would change a counter's name, is elsewhere.
            for family in text_string_to_metric_families(line):
                for sample in family.samples:
                    yield sample.name, sample.labels, float(sample.value)
        except (ValueError, IndexError, OverflowError):
            continue


def _gpu(key: Key, lines: _Lines) -> PublishedGpu:
    index, values = lines.labels.get("gpu", ""), _values(lines.copies)
    return PublishedGpu(
        uuid=key[0],
        gpu_instance_id=key[1],
        index=int(index) if index.isascii() and index.isdecimal() and len(index) < 6 else None,
        gpu_model=lines.labels.get("modelname"),
        pci_bus_id=lines.labels.get("pci_bus_id"),
        mig_profile=lines.labels.get("gpu_i_profile"),
        hosts=frozenset(lines.hosts - {""}),
        values={
            quantity: value
            for quantity, value in values.items()
            if key[1] is None or quantity not in _WHOLE_GPUS
        },
        must_move="energy_joules" in values or values.get("power_watts", 0) > 0,
    )


def _values(copies: Mapping[str, set[float]]) -> dict[Quantity, float]:
    base_units = has_base_units(copies)
    values: dict[Quantity, float] = {}
    doubtful: set[Quantity] = set()
    for name, meaning in FIELDS.items():
        quantity = meaning.quantity
        if name not in copies or quantity in values:
            continue
        if len(copies[name]) > 1:
            doubtful.add(quantity)
            continue
        value = canonical(name, *copies[name], base_units=base_units)
        if value is not None:
            values[quantity] = value
    return {quantity: value for quantity, value in values.items() if quantity not in doubtful}
