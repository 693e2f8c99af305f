"""Names of the files that tell of a run besides its statistics: who writes them and who reads them agree."""

from __future__ import annotations

__all__ = ["ENVIRONMENT", "EXPLANATION", "LOG", "RUN_RECORD", "RUN_RECORD_FORMAT"]

RUN_RECORD = "run.jsonl"
RUN_RECORD_FORMAT = 1
LOG = "log.log"
EXPLANATION = "explain.txt"
ENVIRONMENT = "environment.txt"
