"""A study's table as Parquet, one or more rows a replicate, which says in its metadata what made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayes_tacit.errors import FileFormatError

TABLE = "replicates.parquet"
_KEY = b"bayes_tacit_study"


def write_table(table: pd.DataFrame, identity: Mapping[str, object], path: Path) -> None:
    """Write the table; the same rows give the same bytes."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    described = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), _KEY: json.dumps(dict(identity))})
    pq.write_table(described, path, compression="zstd")


def read_table(path: Path) -> pd.DataFrame:
    """Read the table back, every number as it was."""
    try:
        return pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(f"{path} is not a readable Parquet file: {error}") from None


def read_identity(path: Path) -> object:
    """Read what the file says of the study, version, seed and design that made it; None if it says nothing."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(f"{path} is not a readable Parquet file: {error}") from None
    return json.loads(metadata[_KEY]) if _KEY in metadata else None
