"""Jobs that never ran: rows put straight into slurmdbd's tables, as copies of those of a real job.

A database with tens of thousands of jobs takes seconds instead of days.
"""

from __future__ import annotations

from collections.abc import Mapping

from .slurm_cluster import SlurmCluster

FIRST_INDEX = 10_000_000  # beyond what slurmdbd gives to real jobs at first


def sql(cluster: SlurmCluster, statement: str) -> list[str]:
    """Run SQL in slurmdbd's database as its administrator; the lines that it prints."""
    argv = (
        "mariadb",
        "--no-defaults",
        f"--socket={cluster.layout.database_socket}",
        "-N",
        "-B",
        "slurm_acct",
    )
    return cluster.run(*argv, stdin=statement, timeout=300).stdout.splitlines()


def invent_jobs(
    cluster: SlurmCluster,
    template: int,
    *,
    count: int,
    first_id: int,
    start_epoch_s: int,
    every_seconds: float,
    run_seconds: int,
    columns: Mapping[str, str] | None = None,
) -> None:
    """Copy a real job and its steps: `count` jobs, one starting every so many seconds, each running as long.

    In `columns`, SQL may use the row's number as s.seq, from 1.
    """
    name = cluster.settings.cluster_name
    row = sql(cluster, f"select job_db_inx from {name}_job_table where id_job={template} limit 1")[0]
    index = f"{FIRST_INDEX + first_id}+s.seq"
    begins = f"{start_epoch_s}+floor((s.seq-1)*{every_seconds})"
    times = {"time_start": begins, "time_end": f"{begins}+{run_seconds}", "job_db_inx": index}
    job = {
        **times,
        "id_job": f"{first_id - 1}+s.seq",
        "time_submit": begins,
        "time_eligible": begins,
        **(columns or {}),
    }
    for table, changed in (("job_table", job), ("step_table", times)):
        names = sql(
            cluster,
            "select column_name from information_schema.columns"
            f" where table_schema='slurm_acct' and table_name='{name}_{table}' order by ordinal_position",
        )
        values = ",".join(changed.get(column, f"t.`{column}`") for column in names)
        into = ",".join(f"`{column}`" for column in names)
        sql(
            cluster,
            f"insert into {name}_{table} ({into}) select {values} from {name}_{table} t"
            f" join seq_1_to_{count} s where t.job_db_inx={row}",
        )
