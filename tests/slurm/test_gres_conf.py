"""Slurm's device list: expected orders are what `slurmd -G` of Slurm 22.05.8 printed for the same files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ofu.slurm.gres_conf import (
    GresConf,
    NodeGres,
    configured_gpu_count,
    configured_gpus,
    node_gres,
    parse,
    read_gres_conf,
    read_node_gres,
)

B01 = "Name=gpu Type=b File=/dev/nvidia[0-1]\n"
A23 = "Name=gpu Type=a File=/dev/nvidia[2-3]\n"


def no_file(name: str) -> str:
    raise FileNotFoundError(name)


def gres_of(
    text: str, gres: str | None = None, *, node: str = "n1", files: dict[str, str] | None = None
) -> NodeGres:
    """The node's list from gres.conf's text and the node's Gres= in slurm.conf (None: not known)."""
    configured = None if gres is None else configured_gpus(f"NodeName=n1 Gres={gres}", "n1")
    return node_gres(parse(text, include=lambda name: (files or {})[name]), node, configured)


def order_of(
    text: str, gres: str | None = None, *, node: str = "n1", files: dict[str, str] | None = None
) -> str:
    """The digits of the device files in Slurm's order: "320" for nvidia3, nvidia2, nvidia0."""
    found = gres_of(text, gres, node=node, files=files)
    assert (None, True) == (found.problem, found.files is not None)
    return "".join(file.removeprefix("/dev/nvidia") for file in found.files or ())


@pytest.mark.parametrize(
    ("text", "gres", "order"),
    [
        ("Name=gpu File=/dev/nvidia[0-3]", "gpu:4", "0123"),
        ("Name=gpu File=/dev/nvidia[1,3]", "gpu:2", "13"),
        ("Name=gpu File=/dev/nvidia[1,3,0]", "gpu:3", "130"),
        ("Name=gpu File=/dev/nvidia3,/dev/nvidia1,/dev/nvidia0", "gpu:3", "310"),
        ("Name=gpu File=/dev/nvidia3\nName=gpu File=/dev/nvidia2", "gpu:2", "32"),
        # fewer in slurm.conf than in gres.conf: the rest does not exist
        ("Name=gpu File=/dev/nvidia[0-3]", "gpu:2", "01"),
        ("Name=gpu File=/dev/nvidia[0-1]\nName=gpu File=/dev/nvidia[2-3]", "gpu:3", "012"),
        ("Name=gpu Type=a File=/dev/nvidia[0-1]", "gpu:a:4", "01"),
        # slurm.conf's order of types goes before gres.conf's order of lines
        (B01 + A23, "gpu:a:2,gpu:b:2", "2301"),
        (
            "Name=gpu Type=b File=/dev/nvidia0\nName=gpu Type=a File=/dev/nvidia2\n"
            "Name=gpu Type=b File=/dev/nvidia1\nName=gpu Type=a File=/dev/nvidia3",
            "gpu:b:1,gpu:a:2",
            "023",
        ),
        (B01 + A23, "gpu:a:1,gpu:b:1,gpu:a:1", "230"),
        (B01 + A23, "gpu:A:2,gpu:b:1", "230"),
        # untyped in slurm.conf: gres.conf's order, whatever the types
        ("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1", "gpu:2", "01"),
        # Name= lines go before NodeName= lines
        ("NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-1]\nName=gpu File=/dev/nvidia[2-3]", "gpu:4", "2301"),
        # the same line, written in other ways
        ('Name=GPU File="/dev/nvidia[0-1]"', "gpu:2(S:0-1)", "01"),
        ("name = gpu \\\n  file = /dev/nvidia[0-1] # two", "gpu:no_consume:2", "01"),
        ("NodeName=n2,n1 File=/dev/nvidia[0-1] Name=gpu Count=2 Flags=nvidia_gpu_env", "gpu:2", "01"),
        ("Name=gpu File=/dev/nvidia0 File=/dev/nvidia1", "gpu:1", "1"),
        # other nodes and other resources
        ("Name=gpu File=/dev/nvidia0\nNodeName=n2 Name=gpu File=/dev/nvidia1", "gpu:1", "0"),
        ("Name=gpu File=/dev/nvidia0\nName=shard Count=4 File=/dev/nvidia1", "gpu:2", "0"),
    ],
)  # fmt: skip
def test_order_is_slurms(text: str, gres: str, order: str) -> None:
    """Positions follow the list that slurmd builds from gres.conf and slurm.conf together."""
    assert order == order_of(text, gres)


def test_without_slurm_conf_one_type_keeps_the_files_order() -> None:
    """Where slurm.conf does not name the node, one GPU type leaves no doubt."""
    assert "31" == order_of("Name=gpu Type=h100 File=/dev/nvidia3\nName=gpu Type=h100 File=/dev/nvidia1")


@pytest.mark.parametrize(
    ("text", "gres", "complaint"),
    [
        ("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1", None, "several GPU types"),
        ("Name=gpu Type=a File=/dev/nvidia0\nName=gpu File=/dev/nvidia1", "gpu:2", "others have none"),
        ("Name=gpu Type=a File=/dev/nvidia0", "gpu:1,gpu:a:1", "others have none"),
        ("Name=gpu File=/dev/nvidia0", "gpu:a:1", "gres.conf does not"),
        ("Name=gpu File=/dev/nvidia[0-1] Count=1", "gpu:2", "Count=1 beside 2 files"),
        ("Name=gpu Count=2", "gpu:2", "no File="),
        ("AutoDetect=nvml\nName=gpu File=/dev/nvidia0\nName=gpu Count=1", "gpu:2", "no File="),
        ("Name=gpu File=/dev/nvidia0 MultipleFiles=/dev/nvidia1", "gpu:1", "both"),
        ("Name=gpu File=/dev/nvidia[0-", "gpu:1", "not closed"),
        ("Name=gpu File=/dev/nvidia0 nonsense", "gpu:1", "'nonsense' is not key=value"),
        ("File=/dev/nvidia0 Name=gpu", "gpu:1", "must begin with"),
        ("AutoDetect=nvml Name=gpu File=/dev/nvidia0", "gpu:1", "must begin with"),
        ("NodeName=n1 AutoDetect=nvml\nNodeName=n1 AutoDetect=off", "gpu:1", "given twice"),
        ("Include gone.conf\nName=gpu File=/dev/nvidia0", "gpu:1", "gone.conf"),
    ],
)
def test_what_stops_slurmd_is_a_problem(text: str, gres: str | None, complaint: str) -> None:
    """Where slurmd would not start, or the order hangs on something unknown, a reason replaces the list."""
    configured = None if gres is None else configured_gpus(f"NodeName=n1 Gres={gres}", "n1")
    found = node_gres(parse(text, include=no_file), "n1", configured)
    assert (None, True) == (found.files, complaint in (found.problem or ""))


@pytest.mark.parametrize(
    ("text", "autodetect"),
    [
        ("", None),
        ("AutoDetect=nvml", "nvml"),
        ("autodetect=NVML", "nvml"),
        ("AutoDetect=off", None),
        ("AutoDetect=nvml\nAutoDetect=off", None),
        ("AutoDetect=nvml\nNodeName=n1 AutoDetect=off", None),
        ("NodeName=n[1-2] AutoDetect=nvidia", "nvidia"),
        ("NodeName=n2 AutoDetect=nvml", None),
        ("NodeName=n1 AutoDetect=rsmi Name=shard Count=4\nAutoDetect=nvml", "rsmi"),
        ("Name=shard Count=4 AutoDetect=nvml", None),
    ],
)
def test_autodetect_of_a_node(text: str, autodetect: str | None) -> None:
    """A node's own AutoDetect goes before the global one; within a line it counts only beside NodeName=."""
    assert NodeGres(autodetect=autodetect) == gres_of(text)


def test_multiple_files_are_one_gpu() -> None:
    """A MultipleFiles= line is one position, with all its files."""
    text = (
        "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[21-22]\nName=gpu File=/dev/nvidia1"
    )
    mig = "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22"
    assert NodeGres(files=(mig, "/dev/nvidia1")) == gres_of(text, "gpu:2")


def test_include_stands_where_it_is() -> None:
    """An included file's lines come where the Include stands."""
    text = "Name=gpu File=/dev/nvidia3\nInclude sub/a.conf\nName=gpu File=/dev/nvidia1"
    assert "321" == order_of(text, "gpu:3", files={"sub/a.conf": "Name=gpu File=/dev/nvidia2"})


def test_include_in_a_circle_is_a_problem() -> None:
    """Files that include each other end in a problem, not in endless reading."""
    files = {"a": "Include b", "b": "include a"}
    assert "includes itself" in (gres_of("Include a", files=files).problem or "")


def test_include_too_deep_is_a_problem() -> None:
    """A chain of files that never repeats ends as well."""
    conf = parse("Include 0", include=lambda name: f"Include {int(name) + 1}")
    assert "deeper" in (conf.problem or "")


@pytest.mark.parametrize(
    ("slurm_conf", "count"),
    [
        ("NodeName=n1 Gres=gpu:h100:4", 4),
        ("nodename=n[1-4] gres=gpu:a:2(S:0,1),gpu:b:1,shard:8", 3),
        ("NodeName=n1 Gres=gpu", 1),
        ("NodeName=n1 Gres=gpu:h100", 1),
        ("NodeName=n1 Gres=gpu:no_consume:2", 2),
        ("NodeName=n1 Gres=gpu:1K", 1024),
        ("NodeName=n1 Gres=shard:8", 0),
        ("NodeName=n1 CPUs=4", 0),
        ("NodeName=DEFAULT Gres=gpu:2\nNodeName=DEFAULT CPUs=4\nNodeName=n1", 2),
        ("NodeName=DEFAULT Gres=gpu:2\nNodeName=n1 Gres=gpu:4", 4),
        ("NodeName=n2 Gres=gpu:4", None),
        ("NodeName=n[1 Gres=gpu:4", None),
        ("Include gone.conf\nPartitionName=p Nodes=ALL\nNodeName=n1 \\\n Gres=gpu:4 # four", 4),
        ("", None),
    ],
)
def test_configured_gpu_count(slurm_conf: str, count: int | None) -> None:
    """slurm.conf's NodeName lines say how many GPUs a node has; None where they do not name it."""
    assert count == configured_gpu_count(slurm_conf, "n1", include=no_file)


def test_reads_both_files_beside_each_other(tmp_path: Path) -> None:
    """gres.conf and included files are looked for beside slurm.conf."""
    (tmp_path / "nodes").mkdir()
    (tmp_path / "slurm.conf").write_text("ClusterName=x\nInclude nodes/gpu.conf\n")
    (tmp_path / "nodes/gpu.conf").write_text("NodeName=n[1-2] Gres=gpu:b:1,gpu:a:1\n")
    (tmp_path / "gres.conf").write_text(f"Include {tmp_path}/nodes/gres.conf\n")
    (tmp_path / "nodes/gres.conf").write_text(
        "Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n"
    )
    expected = (NodeGres(files=("/dev/nvidia1", "/dev/nvidia0")), 2)
    assert expected == read_node_gres(tmp_path / "slurm.conf", "n2")


def test_missing_files_say_nothing(tmp_path: Path) -> None:
    """Slurm allows a missing gres.conf: no list, no problem."""
    assert (NodeGres(), None) == read_node_gres(tmp_path / "slurm.conf", "n1")


def test_unreadable_gres_conf_is_a_problem(tmp_path: Path) -> None:
    """A gres.conf that is there and cannot be read is not an empty one."""
    (tmp_path / "gres.conf").mkdir()
    assert "directory" in (read_gres_conf(tmp_path / "slurm.conf").problem or "")


@pytest.mark.property
@given(st.text(alphabet='NameFilgpu=[0-1],"\\# \n\tAutoDect', max_size=60))
def test_any_text_is_parsed_or_a_problem(text: str) -> None:
    """No text of gres.conf raises, and a problem leaves no list to rely on."""
    conf = parse(text, include=no_file)
    found = node_gres(conf, "n1", None)
    assert isinstance(conf, GresConf)
    assert not (found.problem and found.files)
