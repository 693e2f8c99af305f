"""Names of a run's files besides its statistics, shared by their writers and readers."""

from __future__ import annotations

__all__ = ["ENVIRONMENT", "EXPLANATION", "LOG", "RUN_RECORD", "RUN_RECORD_FORMAT"]

RUN_RECORD = "run.jsonl"
RUN_RECORD_FORMAT = 1
LOG = "log.log"
EXPLANATION = "explain.txt"
ENVIRONMENT = "environment.txt"
