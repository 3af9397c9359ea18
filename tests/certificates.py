"""Certificates for tests, made by `openssl` when they are wanted: nothing secret is in the tree."""

import shutil
import subprocess
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
EXTENSIONS = """\
subjectAltName=IP:127.0.0.1,DNS:localhost
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""


def _openssl(*argv: object) -> None:
    program = shutil.which("openssl")
    assert program, "openssl is missing"
    subprocess.run([program, *map(str, argv)], check=True, capture_output=True)


class Authority:
    """Who signs; its own certificate is `file`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.file, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        signs = ("-addext", "keyUsage=critical,keyCertSign")
        _openssl(
            "req", "-x509", *KEY, "-keyout", self._key, "-out", self.file, "-subj", f"/CN={name}",
            "-days", 2, *signs,
        )  # fmt: skip

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate for this machine, and its key; written anew, they replace what was there.

        As renewal does it: the key first, each file whole.
        """
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        request, new = self.folder / "request", self.folder / "new"
        (self.folder / "extensions").write_text(EXTENSIONS)
        _openssl("req", *KEY, "-keyout", new, "-out", request, "-subj", f"/CN={name}")
        new.replace(key)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self._key, "-days", 1,
            "-CAcreateserial", "-extfile", self.folder / "extensions", "-out", new,
        )  # fmt: skip
        new.replace(cert)
        return cert, key
