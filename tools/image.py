"""Makes an image archive the same for the same image: buildah puts a random host name and container id into it.

Usage: python3 image.py ARCHIVE TAG OUT. The archive is what `buildah push docker-archive:` wrote; docker load and podman load
read the new one.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile


def main() -> None:
    source, tag, out = sys.argv[1:]
    with tarfile.open(source) as archive:
        read = lambda name: archive.extractfile(name).read()  # noqa: E731
        (manifest,) = json.loads(read("manifest.json"))
        config = json.loads(read(manifest["Config"]))
        layers = [(name, read(name)) for name in manifest["Layers"]]
    for name in ("container", "container_config", "parent", "id"):
        config.pop(name, None)
    config["config"].pop("Hostname", None)
    text = json.dumps(config, sort_keys=True, separators=(",", ":")).encode()
    named = hashlib.sha256(text).hexdigest() + ".json"
    files = [*layers, (named, text)]
    files.append(("manifest.json", json.dumps([{"Config": named, "RepoTags": [tag], "Layers": [name for name, _ in layers]}]).encode()))
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as packed, tarfile.open(mode="w", fileobj=packed, format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))


main()
