#!/usr/bin/env python3
"""What `make dist` made is installed in a clean place and runs the tour: `tests/dist/run.py DIRECTORY`.

The tarball is unpacked into a directory; of the Debian package the files are, and where dpkg may do so (as root) the package is
installed into a root directory of its own. Programs are run without the variables of this shell.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Bytes of the tarball.
SIZE_MAX = 45_000_000
# Lines of two screens.
TOUR_LINES_MAX = 96
sys.path.insert(0, str(ROOT / "tests/support"))
from server import Server  # noqa: E402


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          check=False, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


def tour(binary, place, data):
    """The tour, from a directory that has examples/; a look-up must be one, and the whole fits two screens."""
    path = f"{binary.parent}:/usr/local/bin:/usr/bin:/bin"
    out = run(binary, "sql", "--data", data, "--format", "table", "-f", "examples/tour.sql", cwd=place, env={"PATH": path, "HOME": str(data.parent)})
    for words in ("SHORT-CIRCUIT", '"Status": "Success"', '"NumberLoadedRows": 486', "too small"):
        assert words in out, f"{words!r} is not in the tour:\n{out}"
    assert len(out.splitlines()) <= TOUR_LINES_MAX, f"the tour has {len(out.splitlines())} lines:\n{out}"
    left = [name for name in os.listdir("/proc") if name.isdigit() and runs(name, str(data))]
    assert not left, f"the tour left servers behind: {left}"


def runs(pid, data):
    try:
        return f"\0{data}\0".encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def completions(directory, names):
    """Each shell that is installed reads its file; bash completes a command and an option."""
    bash = directory / names["bash"]
    script = f"source {bash}; COMP_WORDS=(dipper $1); COMP_CWORD=1; _dipper dipper $1 dipper; echo ${{COMPREPLY[@]}}"
    assert run("bash", "-c", script, "bash", "se").split() == ["server"]
    script = f"source {bash}; COMP_WORDS=(dipper server --mysql); COMP_CWORD=2; _dipper dipper --mysql server; echo ${{COMPREPLY[@]}}"
    assert run("bash", "-c", script).split() == ["--mysql-port"]
    for shell in ("zsh", "fish"):
        text = (directory / names[shell]).read_text()
        assert "mysql-port" in text, f"{shell}: {text[:300]}"
        if shutil.which(shell):
            run(shell, "-n", directory / names[shell])


def manual(pages):
    """A page for every command, which man renders where it is installed."""
    assert {"dipper.1", "dipper-sql.1", "dipper-server.1", "dipper-load.1"} <= {page.name.removesuffix(".gz") for page in pages}
    if shutil.which("man") and shutil.which("groff"):
        for page in pages:
            assert re.search(r"dipper", run("man", "-l", page, env={**os.environ, "MANPAGER": "cat"})), page


def configuration(binary, file, place):
    """A server starts with the sample configuration; only its directory and ports are others."""
    with Server(binary, place, "--config", file) as server:
        assert server.request("GET", "/api/health")[0] == 200
        assert "unknown" not in server.said() and "no effect" not in server.said(), server.said()


def unit(file, binary):
    """systemd takes the unit, where it is installed."""
    text = file.read_text().replace("/usr/bin/dipper", str(binary))
    assert f"ExecStart={binary} server --config /etc/dipper/dipper.toml" in text
    if shutil.which("systemd-analyze"):
        copy = file.parent / "verified-dipper.service"
        copy.write_text(text)
        out = run("systemd-analyze", "verify", "--man=no", copy)
        assert "Unknown" not in out, out
        copy.unlink()


def documentation(place):
    assert "Apache License" in ((place / "LICENSE") if (place / "LICENSE").exists() else place / "copyright").read_text()
    licences = (place / "third-party-licences.txt").read_text()
    assert re.search(r"^datafusion \S+: Apache-2.0$", licences, re.MULTILINE) and "MIT License" in licences


def tarball(file, place):
    size = file.stat().st_size
    assert size <= SIZE_MAX, f"{file.name} has {size} bytes, at most {SIZE_MAX} are wanted"
    with tarfile.open(file) as archive:
        assert all(member.uname == "root" for member in archive), "files of others than root"
        archive.extractall(place, filter="data")
    [top] = place.iterdir()
    binary = top / "bin/dipper"
    assert run(binary, "--version").startswith("dipper ")
    completions(top / "share/completions", {"bash": "dipper.bash", "zsh": "_dipper", "fish": "dipper.fish"})
    manual(sorted((top / "share/man/man1").iterdir()))
    unit(top / "etc/dipper.service", binary)
    configuration(binary, top / "etc/dipper.toml", place)
    documentation(top)
    tour(binary, top, place / "tour-data")


def package(file, place):
    assert run("dpkg-deb", "-f", file, "Package").strip() == "dipper"
    assert run("dpkg-deb", "-f", file, "Depends").startswith("libc6 (>= 2.")
    root = place / "root"
    root.mkdir()
    if os.geteuid() == 0:
        # What the package depends on is in the system's own root, and its scripts run by this system's shell.
        (root / "var/lib/dpkg").mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        options = [f"--root={root}", "--force-depends", "--force-script-chrootless", "--no-triggers"]
        run("dpkg", *options, "--install", file)
        assert "Status: install ok installed" in run("dpkg", f"--root={root}", "--status", "dipper")
    else:
        run("dpkg-deb", "-x", file, root)
    binary = root / "usr/bin/dipper"
    sums = run("dpkg-deb", "--ctrl-tarfile", file, encoding="latin-1")
    assert hashlib.md5(binary.read_bytes()).hexdigest() in sums
    completions(root / "usr/share", {"bash": "bash-completion/completions/dipper", "zsh": "zsh/vendor-completions/_dipper",
                                     "fish": "fish/vendor_completions.d/dipper.fish"})
    manual(sorted((root / "usr/share/man/man1").iterdir()))
    unit(root / "usr/lib/systemd/system/dipper.service", binary)
    configuration(binary, root / "etc/dipper/dipper.toml", place)
    documentation(root / "usr/share/doc/dipper")
    tour(binary, root / "usr/share/doc/dipper", place / "tour-data")
    if os.geteuid() == 0:
        run("dpkg", *options, "--purge", "dipper")
        left = [str(path) for path in root.rglob("*dipper*") if path.is_file() and "var/lib/dpkg" not in str(path)]
        assert not left, f"a purge leaves {left}"


def main():
    made = pathlib.Path(sys.argv[1])
    for pattern, install in (("dipper-*.tar.xz", tarball), ("dipper_*.deb", package)):
        files = sorted(made.glob(pattern), key=lambda file: file.stat().st_mtime)
        if not files:
            sys.exit(f"there is no {pattern} in {made}: make dist")
        with tempfile.TemporaryDirectory(prefix="dipper-dist-") as place:
            install(files[-1].resolve(), pathlib.Path(place))
        print(f"ok    {files[-1].name} ({files[-1].stat().st_size / 1e6:.1f} MB)", flush=True)


if __name__ == "__main__":
    main()
