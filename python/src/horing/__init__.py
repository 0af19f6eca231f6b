"""Collective communication between the ranks of a job."""

from __future__ import annotations
