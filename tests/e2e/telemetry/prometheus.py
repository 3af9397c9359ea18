"""A real Prometheus that reads one router each second, for the tests of this folder."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scraping(programs: Path, admin_url: str, folder: Path, port: int) -> Iterator[None]:
    """Runs with its job `router`; its own files are in `folder`, it answers on `port`."""
    config = folder / "prometheus.yml"
    target = admin_url.removeprefix("http://")
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: router, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    process = subprocess.Popen(
        [str(programs / "prometheus"), f"--config.file={config}",
         f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)
