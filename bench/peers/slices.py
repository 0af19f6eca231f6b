"""Slices of a sweep, merged: the latest measurements of a shape and collective replace earlier ones, the rest stays."""
import json


def shape_of(job):
    return job["nodes"], job["ranks_per_node"], job["rate_mbit"]


def earlier(path, settings):
    """The jobs of the results there, if there are any. Exits if they are of a sweep with other settings."""
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["settings"] != json.loads(json.dumps(settings)):
        raise SystemExit(f"{path} has results of other rounds or sizes, with which a slice cannot be put together: name another --out")
    return found["jobs"]


def without(job, collectives):
    """The job as if these had not been measured."""
    failures = [{**failure, "collectives": left} for failure in job["failures"]
                if (left := [name for name in failure["collectives"] if name not in collectives])]
    return {**job, "failures": failures, "times": [line for line in job["times"] if line["collective"] not in collectives]}


def merged(jobs, new, collectives, order):
    """The jobs, by shape in that order, with what `new` has of these collectives in place of what its shape had."""
    found = {shape_of(job): job for job in jobs}
    if old := found.get(shape_of(new)):
        old = without(old, collectives)
        times = sorted(old["times"] + new["times"], key=lambda line: (line["library"], line["collective"], line["bytes"]))
        new = {**new, "failures": old["failures"] + new["failures"], "limits": new["limits"] or old["limits"], "times": times}
    found[shape_of(new)] = new
    return [found[shape] for shape in order if shape in found]
