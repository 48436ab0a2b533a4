"""Counters for Prometheus, in a registry of their own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_JOB_SECONDS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900)


class Metrics:
    """Everything that a daemon counts."""

    def __init__(self) -> None:
        """Make the counters."""
        self._registry = CollectorRegistry()
        self.jobs = Counter("ditto_jobs", "Jobs by how they ended.", ["kind", "state"], registry=self._registry)
        self.job_seconds = Histogram(
            "ditto_job_seconds",
            "Wall time of jobs that ran.",
            ["kind"],
            buckets=_JOB_SECONDS,
            registry=self._registry,
        )
        self.frames = Counter("ditto_frames", "Frames of finished videos.", registry=self._registry)
        self.waiting = Gauge("ditto_jobs_waiting", "Jobs that wait for a device.", registry=self._registry)
        self.streams = Gauge("ditto_streams", "Live sessions.", registry=self._registry)
        self.stream_frames = Counter("ditto_stream_frames", "Frames sent live.", ["kind"], registry=self._registry)
        self.requests = Counter("ditto_requests", "Answers by status.", ["method", "status"], registry=self._registry)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)
