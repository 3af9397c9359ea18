"""Kubernetes manifests that somebody else wrote, judged by the rules that fleets are judged by.

`judge_manifests` is the one entry, called by `cli`. It reads objects that were read from files,
finds the engines in their pods, and writes nothing.
"""

from llmd_ctl.plan.manifests.judge import Found, Judgement, judge_manifests

__all__ = ["Found", "Judgement", "judge_manifests"]
