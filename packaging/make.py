#!/usr/bin/env python3
"""Makes what people install without a compiler: a tarball and a Debian package.

    packaging/make.py BINARY DIRECTORY

BINARY is a dipper of `cargo build --release`; it is stripped on the way, and writes the completions and manual pages itself.
DIRECTORY gets dipper-VERSION-MACHINE-linux.tar.xz and dipper_VERSION_ARCHITECTURE.deb. The files of both are the same for the
same binary and the same commit. Needs strip and objdump (binutils), xz, dpkg-deb, git and cargo.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAINTAINER = "The dipper maintainers <maintainers@dipper.invalid>"
SUMMARY = "real-time analytical database that speaks MySQL's protocol"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# Branches of x86 are rewritten, so that calls of one function look alike. tar and xz read the result as any other.
BRANCHES = {"x86_64": ["--x86"]}
# Threads of xz take a block each. The size is fixed, so that the number of cores does not change the archive.
BLOCK = "48MiB"
COMPLETIONS = {"bash": ("usr/share/bash-completion/completions", "dipper"), "zsh": ("usr/share/zsh/vendor-completions", "_dipper"),
               "fish": ("usr/share/fish/vendor_completions.d", "dipper.fish")}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def third_party():
    """The crates that the binary is made of, with the texts of their licences; a text that several crates have is there once."""
    features = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform",
                              f"{platform.machine()}-unknown-linux-gnu", cwd=ROOT))
    nodes = {node["id"]: node for node in features["resolve"]["nodes"]}
    packages = {package["id"]: package for package in features["packages"]}
    wanted, seen = [p["id"] for p in features["packages"] if p["name"] == "dipper-cli"], set()
    while wanted:
        at = wanted.pop()
        if at not in seen:
            seen.add(at)
            kinds = ((dependency["pkg"], kind["kind"]) for dependency in nodes[at]["deps"] for kind in dependency["dep_kinds"])
            wanted += [name for name, kind in kinds if kind != "dev"]
    crates = sorted((packages[at] for at in seen if packages[at]["source"]), key=lambda p: (p["name"], p["version"]))
    out, texts = ["dipper is made with these crates of other authors.\n\n"], {}
    for crate in crates:
        out.append(f"{crate['name']} {crate['version']}: {crate['license'] or 'see the text of its licence'}\n")
        for path in sorted(pathlib.Path(crate["manifest_path"]).parent.iterdir()):
            if re.match(r"(?i)(licen[cs]e|copying|copyright|notice|unlicense)", path.name) and path.is_file():
                text = "\n".join(line.rstrip() for line in path.read_text(encoding="utf-8", errors="replace").strip().splitlines())
                texts.setdefault(text, []).append(f"{crate['name']} {crate['version']} ({path.name})")
    for text, owners in sorted(texts.items(), key=lambda item: item[1]):
        out.append(f"\n{'-' * 80}\n{', '.join(owners)}\n{'-' * 80}\n\n{text}\n")
    return "".join(out)


def stripped(binary, directory):
    """The binary without symbols and lines."""
    out = directory / "dipper"
    subprocess.run(["strip", "--strip-all", "-o", str(out), str(binary)], check=True)
    out.chmod(0o755)
    return out


def time_of_sources():
    """The time of the commit, so that the same sources give the same archive; of sources without git the time of the changelog."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(told.stdout) if told.returncode == 0 else int((ROOT / "CHANGELOG.md").stat().st_mtime)


class Files:
    """Files of an archive by their path, all of root's and of one time."""

    def __init__(self, seconds):
        self.seconds, self.files = seconds, {}

    def add(self, path, data, mode=0o644):
        if isinstance(data, pathlib.Path):
            data = data.read_bytes()
        self.files[path] = (data.encode() if isinstance(data, str) else data, mode)

    def tree(self, path, source):
        for file in sorted(source.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                self.add(f"{path}/{file.relative_to(source)}", file, 0o755 if os.access(file, os.X_OK) else 0o644)

    def entry(self, name, **values):
        info = tarfile.TarInfo(name)
        info.mtime, info.uname, info.gname = self.seconds, "root", "root"
        for key, value in values.items():
            setattr(info, key, value)
        return info

    def tar(self, prefix):
        """A tar archive; directories come before what is in them."""
        out, made = io.BytesIO(), set()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(self.files):
                for parent in list(pathlib.PurePosixPath(path).parents)[-2::-1]:
                    if parent not in made:
                        made.add(parent)
                        archive.addfile(self.entry(f"{prefix}{parent}", type=tarfile.DIRTYPE, mode=0o755))
                data, mode = self.files[path]
                archive.addfile(self.entry(f"{prefix}{path}", size=len(data), mode=mode), io.BytesIO(data))
        return out.getvalue()


def compressed(data, machine, preset):
    command = ["xz", "--stdout", "--threads=0", f"--block-size={BLOCK}", "--check=crc64", *BRANCHES.get(machine, []),
               f"--lzma2=preset={preset},dict=16MiB"]
    return subprocess.run(command, input=data, check=True, stdout=subprocess.PIPE).stdout


def needed_libc(binary):
    """The newest version of the C library that a symbol of the binary asks for."""
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", binary))
    return "%d.%d" % max((int(major), int(minor)) for major, minor in versions)


def about_package(files, version, architecture, libc):
    """The control files of a Debian package."""
    size = sum(len(data) for data, _ in files.files.values())
    about = Files(files.seconds)
    about.add("control", f"Package: dipper\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n"
              f"Installed-Size: {size // 1024}\nDepends: libc6 (>= {libc}), libgcc-s1\nSection: database\nPriority: optional\n"
              f"Description: {SUMMARY}\n SQL over raw files, tables with fast loads and updates, and look-ups by key, in one binary.\n")
    about.add("conffiles", "/etc/dipper/dipper.toml\n")
    about.add("md5sums", "".join(f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, (data, _) in sorted(files.files.items())))
    # The service is neither enabled nor started: whoever installs it sets a password and the directory first.
    reload = "#!/bin/sh\nset -e\nif test -d /run/systemd/system; then systemctl daemon-reload || true; fi\n"
    about.add("postinst", reload, 0o755)
    about.add("postrm", reload, 0o755)
    return about


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--preset", type=int, default=6, choices=range(10), help="of xz; less is faster and larger")
    arguments = parser.parse_args()
    machine = platform.machine()
    seconds = time_of_sources()
    version = run(arguments.binary, "--version").split()[1]
    with tempfile.TemporaryDirectory(prefix="dipper-dist-") as directory:
        directory = pathlib.Path(directory)
        binary = stripped(arguments.binary, directory)
        run(binary, "man", directory / "man")
        pages = sorted((directory / "man").iterdir())
        completions = {shell: run(binary, "completions", shell) for shell in COMPLETIONS}
        licences, libc = third_party(), needed_libc(binary)
        tarball, package = Files(seconds), Files(seconds)
        tarball.add("bin/dipper", binary, 0o755)
        package.add("usr/bin/dipper", binary, 0o755)
        for page in pages:
            tarball.add(f"share/man/man1/{page.name}", page)
            package.add(f"usr/share/man/man1/{page.name}.gz", gzip.compress(page.read_bytes(), 9, mtime=0))
        for shell, (place, name) in COMPLETIONS.items():
            tarball.add(f"share/completions/{name if shell != 'bash' else 'dipper.bash'}", completions[shell])
            package.add(f"{place}/{name}", completions[shell])
        tarball.add("etc/dipper.service", ROOT / "packaging/dipper.service")
        tarball.add("etc/dipper.toml", ROOT / "packaging/dipper.toml")
        package.add("usr/lib/systemd/system/dipper.service", ROOT / "packaging/dipper.service")
        package.add("etc/dipper/dipper.toml", ROOT / "packaging/dipper.toml")
        for files, place in ((tarball, "."), (package, "usr/share/doc/dipper")):
            at = "" if place == "." else f"{place}/"
            for name in ("README.md", "CHANGELOG.md", "SECURITY.md"):
                files.add(f"{at}{name}", ROOT / name)
            files.tree(f"{at}docs", ROOT / "docs")
            files.tree(f"{at}examples", ROOT / "examples")
            files.add(f"{at}third-party-licences.txt", licences)
        tarball.add("LICENSE", ROOT / "LICENSE")
        package.add("usr/share/doc/dipper/copyright", ROOT / "LICENSE")
        arguments.directory.mkdir(parents=True, exist_ok=True)
        name = f"dipper-{version}-{machine}-linux"
        made = arguments.directory / f"{name}.tar.xz"
        made.write_bytes(compressed(tarball.tar(f"{name}/"), machine, arguments.preset))
        print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")
        architecture = DEBIAN[machine]
        root = directory / "deb"
        control = about_package(package, version, architecture, libc)
        for files, at in ((package, root), (control, root / "DEBIAN")):
            for path, (data, mode) in files.files.items():
                (at / path).parent.mkdir(parents=True, exist_ok=True)
                (at / path).write_bytes(data)
                (at / path).chmod(mode)
        made = arguments.directory / f"dipper_{version}_{architecture}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zxz", f"-z{arguments.preset}", "--build", root, made,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)})
        print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
