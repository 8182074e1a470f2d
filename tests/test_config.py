"""One TOML file → Config."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ofu.config import DEFAULT_PATH, config_path, load_config, parse_config, url_path
from slurm_ofu.config.keys import FREE_SECTIONS, GPU_MODEL_KEYS, SECTIONS
from slurm_ofu.errors import ConfigError
from slurm_ofu.values import (
    AUDIT_NAMES,
    AccountingConfig,
    AuditConfig,
    CollectorConfig,
    Config,
    FindingRules,
    Goals,
    GpuModel,
    MailConfig,
    PagesConfig,
    PrometheusConfig,
    SamplerConfig,
    SigningConfig,
    WriteBackConfig,
)

ROOT = Path(__file__).resolve().parent.parent

SHIPPED = Path(__file__).parents[1] / "etc/slurm-ofu.toml"
PATH = "/etc/here.toml"


def parsed(text: str) -> Config:
    return parse_config(text, path=PATH)


def problem(text: str) -> str:
    """What is wrong with a text."""
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    return str(caught.value)


def uncommented(text: str) -> str:
    """The shipped file with every commented key and table switched on."""
    return re.sub(r'^# (?=(\[[^\]]+\]|"?[\w.]+"? = .*)$)', "", text, flags=re.MULTILINE)


# --------------------------------------------------------------- the shipped file


def test_the_shipped_file_is_all_defaults() -> None:
    """Every key of the shipped file is at its default: without it the program does the same."""
    assert Config(path=PATH) == parsed(SHIPPED.read_text())
    assert Config(path=PATH) == parsed("")


def test_the_shipped_file_has_every_key() -> None:
    """Every key that there is stands in the shipped file, in its section."""
    text = SHIPPED.read_text()
    for section, keys in SECTIONS.items():
        body = text.split(f"\n[{section}]\n")[1].split("\n[")[0]
        for key in keys:
            assert re.search(rf"^(# )?{key} = ", body, re.MULTILINE), f"[{section}] {key}"


def test_commented_keys_parse() -> None:
    """What the shipped file shows in comments is valid as it stands."""
    its = parsed(uncommented(SHIPPED.read_text()))
    assert ("cluster", 1) == (its.cluster_name, its.sampler.seed)
    assert {"node01": {0: "GPU-6e19195c-0000-0000-0000-000000000000", 1: "0000:3B:00.0"}} == its.gpu_map
    assert ("NVIDIA Example", 1830.0) == (its.gpu_models[0].name, its.gpu_models[0].reference_clock_mhz)


PARTS = {
    "sampler": SamplerConfig,
    "delivery_signing": SigningConfig,
    "collector.signing": SigningConfig,
    "collector": CollectorConfig,
    "accounting": AccountingConfig,
    "write_back": WriteBackConfig,
    "prometheus": PrometheusConfig,
    "findings": FindingRules,
    "audits": AuditConfig,
    "mail": MailConfig,
    "pages": PagesConfig,
}


def test_every_value_of_the_config_has_a_key() -> None:
    """Every field of Config and of its parts can be set, by one key each."""
    by_key = [key.field for keys in SECTIONS.values() for key in keys.values()]
    names = {field.name for field in fields(Config)} - {"path", *PARTS, *FREE_SECTIONS}
    names |= {f"{part}.{field.name}" for part, kind in PARTS.items() for field in fields(kind)}
    assert sorted(names - {"collector.signing", "collector.clusters"}) == sorted(by_key)


def with_field(its: Any, path: str, value: Any) -> Any:
    """A copy of a part of the configuration with one field changed."""
    name, _, rest = path.partition(".")
    return replace(its, **{name: with_field(getattr(its, name), rest, value) if rest else value})


def test_a_key_sets_its_field() -> None:
    """Each key sets its own field, and no other."""
    others: dict[tuple[type, ...], Any] = {(int, float): 7.5, (int,): 7, (bool,): True, (list,): ["x"]}
    ratios = ("findings", "audits")
    special = {
        "spool_dir": "/x/spool",
        "sampler.source": "nvml",
        "delivery_to": "dir:///x",
        "database": "sqlite:///x.db",
        "collector.listen": "[::1]:77",
        "accounting.source": "none",
        "write_back.field": "AdminComment",
        "sampler.exporter_url": "https://node:9400/metrics",
        "sampler.allow_opt_out": False,
        "prometheus.url": "http://monitor:9090",
        "mail.server": "relay:587",
        "mail.audits": ["waste"],
        "mail.help_url": "https://wiki/gpus",
    }
    paths = (
        *("munge_socket", "key_file", "ca_file", "inbox", "bin_dir", "slurm_conf", "dcgmi", "token_file"),
        "templates_dir",
    )
    for section, keys in SECTIONS.items():
        for name, key in keys.items():
            value = special.get(key.field) or others.get(key.kinds) or ("/x" if name in paths else "text")
            value = "key" if name == "authentication" else value
            value = 0.75 if section in ratios and name.endswith("_ratio") and key.check(value) else value
            shown = str(value).lower() if isinstance(value, bool) else repr(value)
            its = parsed(f"[{section}]\n{name} = {shown}\n")
            stored = tuple(value) if isinstance(value, list) else value
            assert with_field(Config(path=PATH), key.field, stored) == its, name


def test_clusters_of_a_collector_inherit_what_they_do_not_say() -> None:
    """[clusters.NAME] changes only what it names."""
    its = parsed(
        '[collector]\nkey_file = "/x/all"\n[clusters.a]\nmunge_socket = "/x/a"\n'
        '[clusters.b]\nauthentication = "key"\n'
    )
    a, b = its.collector.clusters
    assert ("a", SigningConfig(munge_socket="/x/a", key_file="/x/all")) == (a.name, a.signing)
    assert ("b", SigningConfig(authentication="key", key_file="/x/all")) == (b.name, b.signing)


# --------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("[smapler]\n", ["section smapler is not known", "did you mean sampler?"]),
        ("[sampler]\nintervall_seconds = 5\n", ["[sampler]", "did you mean interval_seconds?"]),
        ("[delivery]\nwait_secs = 5\n", ["did you mean wait_seconds?"]),
        ("[node]\nzzz = 1\n", ["key zzz is not known", "known are cluster_name, spool_dir"]),
        ('[gpu_models."X"]\nreference_clock = 1\n', ["did you mean reference_clock_mhz?"]),
        ("interval_seconds = 5\n", ["interval_seconds is not known"]),
        ("[clusters.a]\nmunge_sockt = '/x'\n", ["[clusters.a]", "did you mean munge_socket?"]),
    ],
)
def test_a_typo_is_named_with_the_nearest_key(text: str, hints: list[str]) -> None:
    """An unknown key is an error that names the key and the nearest valid one."""
    message = problem(text)
    assert message.startswith(PATH)
    for hint in hints:
        assert hint in message


WRONG = [
    (
        "sampler",
        "interval_seconds",
        ['"5"', "true", "[]", "0", "-1", "0.0", "nan", "inf", "-inf", "1e-9", "1e300"],
    ),
    ("sampler", "interval_seconds", ["1" + "0" * 400]),
    ("sampler", "cycles_interval_seconds", ["0", "inf"]),
    ("sampler", "checkpoint_seconds", ["0", "inf"]),
    ("sampler", "counter_refresh_seconds", ["-0.1", "nan"]),
    ("sampler", "clock_readings", ["1", "0", "-3", "1001", "2.5", "true", '"10"']),
    ("sampler", "source", ['""', '"gpu"', '"replay://x"', '"synthetic:/x"', "1"]),
    ("sampler", "seed", ["1.5", "true", '"1"']),
    ("node", "spool_dir", ['"spool"', '""', "1", '"/x\'y"', '"/x\\\\y"', '"/x\\ny"']),
    ("node", "cluster_name", ["1"]),
    ("delivery", "to", ['"/x"', '"sqlite:/x"', '"dir://x"', '"postgresql:///x"', "1"]),
    ("delivery", "wait_seconds", ["0", "inf", '"1"']),
    ("delivery", "to", ['"http://host"', '"http://host:0"', '"https://host:6825/path"', '"ftp://host:1"']),
    ("delivery", "authentication", ['"none"', "1"]),
    ("collector", "listen", ['"6825"', '":6825"', '"host:99999"', '"host:x"']),
    ("collector", "inbox", ['"relative"', '""']),
    ("collector", "threads", ["0", "65", "1.5"]),
    ("accounting", "source", ['"slurmdbd"']),
    ("accounting", "clusters", ['"a"', "[1]", '[""]', '["a,b"]']),
    ("write_back", "field", ['"systemcomment"', '"Extra"']),
    ("findings", "idle_ratio", ["0", "-0.1", "1.2", "nan", "true", '"0.5"', "90"]),
    ("findings", "idle_tail_seconds", ["0", "-1", "inf"]),
    ("audits", "minimum_gpu_hours", ["-1", "inf", '"1"']),
    ("audits", "top", ["0", "-1", "2.5", "true"]),
    ("audits", "exclude_users", ['"a"', "[1]", '[""]', '["a,b"]', '["a "]']),
    ("audits", "waste_ofu_ratio", ["0", "10"]),
    ("audits", "regression_factor", ["1", "0.5", "inf", "nan"]),
    ("audits", "regression_runs", ["1", "2.5"]),
    ("audits", "claim_difference_pp", ["0", "-5"]),
    ("mail", "server", ['"relay"', '"relay:0"', '"smtp://relay:25"']),
    ("mail", "audits", ['"idle"', '["idel"]', '["all"]', "[1]", '["idle,unused"]']),
    ("mail", "days_between", ["0", "-1", "inf"]),
    ("mail", "templates_dir", ['"templates"']),
    ("mail", "help_url", ['"wiki"', '"javascript:alert(1)"']),
    ("pages", "show_users", ['"yes"', "1"]),
    ("pages", "job_pages", ["0", "1.5"]),
    ("goals", "gpu", ["0", "1.2", "40", "true", "nan", '"0.4"', "[]"]),
    ("goals", "default", ["0.4"]),
    ("goals", '"gpu,long"', ["0.4"]),
    ("goals", '"gpu "', ["0.4"]),
    ("database", "url", ['"x.db"', '"dir:///x"', "1"]),
    ("database", "group", ["1", "true"]),
    ("database", "world_readable", ["1", '"yes"']),
]


@pytest.mark.parametrize(
    ("section", "key", "value"), [(section, key, value) for section, key, values in WRONG for value in values]
)
def test_a_wrong_value_is_named(section: str, key: str, value: str) -> None:
    """A wrong type or a value out of range is an error that names file, section and key."""
    message = problem(f"[{section}]\n{key} = {value}\n")
    for part in (PATH, f"[{section}]", key.strip('"')):
        assert part in message


def test_a_near_miss_of_an_audit_is_named() -> None:
    """An audit that there is none of is said with the nearest one, or with all that there are."""
    assert problem('[mail]\naudits = ["idle", "regresions"]\n').endswith(
        "'regresions' is no audit; did you mean regressions?"
    )
    assert problem('[mail]\naudits = ["xyz"]\n').endswith("they are " + ", ".join(AUDIT_NAMES))


def test_a_partition_of_the_goals_that_means_all() -> None:
    """Slurm's own DEFAULT is no partition: the message says what is."""
    assert problem("[goals]\nDEFAULT = 0.3\n").endswith('no partition has that name: write "*"')


@pytest.mark.parametrize(
    "text",
    [
        "[sampler\n",
        "sampler = 5\n",
        "[[sampler]]\n",
        "gpu_map = 1\n",
        "[gpu_map]\nn1 = 5\n",
        '[gpu_map.n1]\nx = "GPU-1"\n',
        "[gpu_map.n1]\n0 = 1\n",
        "[gpu_models]\nX = 5\n",
        '[gpu_models."X"]\nsm_count = 1\n',
        '[gpu_models."X"]\nreference_clock_mhz = 0\n',
        '[gpu_models."X"]\nreference_clock_mhz = "1830"\n',
        '[gpu_models."X"]\nreference_clock_mhz = 1830\nsm_count = 1.5\n',
    ],
)
def test_another_shape_is_a_config_error(text: str) -> None:
    """A file of another shape is a ConfigError that names the file."""
    assert problem(text).startswith(PATH)


# --------------------------------------------------------------- what is understood


def test_whole_numbers_of_seconds_do() -> None:
    """5 is as good as 5.0, and becomes it."""
    its = parsed("[sampler]\ninterval_seconds = 5\n").sampler.interval_seconds
    assert (5.0, float) == (its, type(its))


def test_no_group_is_an_empty_name() -> None:
    """The empty group is none: nobody but the owner may read."""
    assert None is parsed('[database]\ngroup = ""\n').database_group


def test_a_sites_gpu_models() -> None:
    """A site's own GPU model needs its reference clock; what it leaves out is not known."""
    said = '[gpu_models."NVIDIA X-1"]\nreference_clock_mhz = 1500\npeak_tflops = 99\ncalibrated = false\n'
    (model,) = parsed(said).gpu_models
    expected = GpuModel(
        name="NVIDIA X-1",
        sm_count=None,
        reference_clock_mhz=1500.0,
        max_clock_mhz=None,
        peaks={"fp16": 99.0},
        calibrated=False,
        status="site",
    )
    assert expected == model
    assert {
        *("sm_count", "reference_clock_mhz", "max_clock_mhz", "peak_tflops", "calibrated", "source")
    } == set(GPU_MODEL_KEYS)


def test_a_sites_goals() -> None:
    """A partition has the goal that is said of it, others that of "*", and without it the default."""
    goals = parsed('[goals]\n"*" = 0.3\ninference = 0.15\nhpl = 1\n').goals
    assert (0.15, 1.0, 0.3, 0.3) == tuple(goals.of(name) for name in ("inference", "hpl", "gpu", None))
    assert Goals() == parsed("[goals]\n").goals


def test_a_sites_gpu_map() -> None:
    """The GPU map has a table per node, and one for all."""
    its = parsed('[gpu_map."*"]\n0 = "GPU-a"\n[gpu_map.n1]\n7 = "/dev/nvidia3"\n')
    assert {"*": {0: "GPU-a"}, "n1": {7: "/dev/nvidia3"}} == its.gpu_map


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///var/x.db", "/var/x.db"),
        ("sqlite:////var/x.db", "/var/x.db"),
        ("dir:///in box/a=b", "/in box/a=b"),
    ],
)
def test_the_path_in_a_url(url: str, expected: str) -> None:
    """A URL holds an absolute path; SQLAlchemy's four slashes are fine too."""
    assert Path(expected) == url_path(url)


# --------------------------------------------------------------- which file


@pytest.fixture
def variable() -> Iterator[Any]:
    """OFU_CONFIG, set and put back."""
    before = os.environ.pop("OFU_CONFIG", None)
    yield lambda value: os.environ.__setitem__("OFU_CONFIG", value)
    os.environ.pop("OFU_CONFIG", None)
    if before is not None:
        os.environ["OFU_CONFIG"] = before


def test_the_file_is_found(variable: Any) -> None:
    """The argument, else the environment variable OFU_CONFIG, else the default path."""
    assert DEFAULT_PATH == config_path()
    variable("/from/environment")
    assert ("/from/environment", "/from/argument") == (config_path(), config_path("/from/argument"))
    variable("")
    assert DEFAULT_PATH == config_path()


def test_a_named_file_must_be_there(variable: Any, tmp_path: Path) -> None:
    """Only the default file may be absent."""
    for named in (str(tmp_path / "nowhere"), None):
        variable(str(tmp_path / "nowhere"))
        with pytest.raises(ConfigError, match="no such file"):
            load_config(named)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A directory, or a file that is no text, is a ConfigError."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "binary"):
        with pytest.raises(ConfigError, match="cannot be read"):
            load_config(str(path))


def test_a_file_is_loaded(tmp_path: Path) -> None:
    """The file's values come with the path that they came from."""
    path = tmp_path / "x.toml"
    path.write_text("[sampler]\nclock_readings = 3\n")
    its = load_config(str(path))
    assert (str(path), 3) == (its.path, its.sampler.clock_readings)


HOOK_READINGS = [
    '[node]\nspool_dir = "/a/b"\n',
    '[node]\nspool_dir="/a/b"   # a comment\n',
    "[node]\n\tspool_dir\t=\t'/a b'\n",
    '[node]\nspool_dir = "/last/line"',
    '[node]\ncluster_name = "x"\n',
    "",
]


@pytest.mark.parametrize("text", HOOK_READINGS)
def test_hooks_and_commands_read_the_same_spool(text: str, tmp_path: Path) -> None:
    """What the hooks' shell makes of the file is what the commands make of it."""
    file = tmp_path / "slurm-ofu.toml"
    file.write_text(text)
    hook = (ROOT / "epilog/zz-slurm-ofu").read_text()
    function = re.search(r"^read_spool_dir\(\) {\n.*?^}\n", hook, re.MULTILINE | re.DOTALL)
    assert function
    script = f'ofu_spool=/var/spool/slurm-ofu\n{function[0]}read_spool_dir <{file}\nprintf %s "$ofu_spool"'
    read = subprocess.run(["/bin/sh", "-c", script], text=True, capture_output=True, check=True).stdout
    assert load_config(str(file)).spool_dir == read


@pytest.mark.parametrize(
    "text",
    [
        'node.spool_dir = "/a"\n',
        'node = {spool_dir = "/a"}\n',
        '[node]\n"spool_dir" = "/a"\n',
        '[node]\nspool_dir = """/a"""\n',
    ],
)
def test_a_spool_that_only_toml_can_read_is_refused(text: str) -> None:
    """A valid file whose spool the hooks would not find is an error that says how to write it."""
    with pytest.raises(ConfigError, match="on a line of its own"):
        parse_config(text, path="x")


def test_a_password_is_not_repeated() -> None:
    """A URL that cannot be used is said without what stands before its host."""
    with pytest.raises(ConfigError, match=r"\[prometheus\] url = '…@host:9090': must be http") as raised:
        parse_config('[prometheus]\nurl = "me:s3cret@host:9090"', path="/etc/x")
    assert "s3cret" not in str(raised.value)
