"""Reads what `go version -m` says about programs and prints a CycloneDX list of the modules that are in them.

Usage: go version -m PROGRAM… | python3 sbom.py VERSION. The same programs give the same bytes.
"""

import base64
import json
import sys
import urllib.parse


def main() -> None:
    release = sys.argv[1]
    modules: dict[tuple[str, str], str] = {}
    go = ""
    for line in sys.stdin:
        cells = line.rstrip("\n").split("\t")
        if len(cells) == 1 and ": go" in line:
            go = line.rsplit(": go", 1)[1].strip()
        elif len(cells) >= 4 and cells[1] in ("dep", "=>"):
            modules[(cells[2], cells[3])] = cells[4] if len(cells) > 4 else ""
    if not modules or not go:
        raise SystemExit("no module was found: are these Go programs?")
    components = [component("golang", "stdlib", go, "")]
    components += [component("golang", name, version, checksum) for (name, version), checksum in sorted(modules.items())]
    json.dump(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {"component": {"type": "application", "name": "sluice", "version": release, "bom-ref": "sluice"}},
            "components": components,
            "dependencies": [{"ref": "sluice", "dependsOn": [c["bom-ref"] for c in components]}],
        },
        sys.stdout,
        indent=1,
    )
    print()


def component(kind: str, name: str, version: str, checksum: str) -> dict:
    purl = f"pkg:{kind}/{urllib.parse.quote(name, safe='/')}@{urllib.parse.quote(version, safe='')}"
    found = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
    if checksum.startswith("h1:"):  # the digest of the files of the module, as go.sum has it
        found["hashes"] = [{"alg": "SHA-256", "content": base64.b64decode(checksum[3:]).hex()}]
    return found


main()
