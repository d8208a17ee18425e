"""Builds the wheel with the standard library alone: python3 build_wheel.py DIRECTORY prints its path.

It is also the build backend that pyproject.toml names, so that pip can build the wheel without a network. The same source
gives the same bytes.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "sluice_client"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip can hold

METADATA = """\
Metadata-Version: 2.1
Name: sluice-client
Version: {version}
Summary: Sends conversion events to a Sluice service: hashes, batches, retries, a background queue. No dependency.
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: build_wheel
Root-Is-Purelib: true
Tag: py3-none-any
"""


def version() -> str:
    found = re.search(r'"(.+)"', (HERE / "src" / PACKAGE / "_version.py").read_text("utf-8"))
    if found is None:
        raise SystemExit("_version.py holds no version")
    return found.group(1)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    """Writes the wheel and returns its file name, as PEP 517 asks."""
    release = version()
    info = f"{PACKAGE}-{release}.dist-info"
    source = HERE / "src"
    files = {str(path.relative_to(source)): path.read_bytes() for path in sorted((source / PACKAGE).glob("*")) if path.is_file()}
    files[f"{info}/METADATA"] = METADATA.format(version=release, readme=(HERE / "README.md").read_text("utf-8")).encode("utf-8")
    files[f"{info}/licenses/LICENSE"] = (HERE / "LICENSE").read_bytes()
    files[f"{info}/WHEEL"] = WHEEL.encode("utf-8")
    record = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()] + [f"{info}/RECORD,,\n"]
    files[f"{info}/RECORD"] = "".join(record).encode("utf-8")

    name = f"{PACKAGE}-{release}-py3-none-any.whl"
    pathlib.Path(wheel_directory).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, data)
    return name


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python3 build_wheel.py DIRECTORY")
    print(pathlib.Path(sys.argv[1]) / build_wheel(sys.argv[1]))
