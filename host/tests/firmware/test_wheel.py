"""The C sources in the wheel equal the repository's, and work once installed."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import firmware
from matloom.data.digits import NETWORK

#: Folders that are data of the package, and tests that its projects take along.
SHIPPED = ("include", "driver", "kernels", "link", "plugins", "soc", "support", "project")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return a wheel built from the files that git tracks."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listed, cwd=firmware.ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("needs a clone and git")
    kept = ("host/", "rtl/matloom_rtl/", "firmware/", "pyproject.toml", "README.md", "LICENSE")
    for name in done.stdout.decode().split("\0"):
        source = firmware.ROOT / name
        if name.startswith(kept) and (source.is_symlink() or source.is_file()):
            target = folder / "tree" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                target.symlink_to(source.readlink())
            else:
                target.write_bytes(source.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += [str(folder / "tree"), "-w", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("needs setuptools, which pip cannot reach")
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_has_the_sources(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert "matloom/py.typed" in archive.namelist()
        held = {name: archive.read(name) for name in archive.namelist() if "/firmware/" in name}
    ours = [path for part in SHIPPED for path in (firmware.FIRMWARE / part).rglob("*")]
    files = {f"matloom/{p.relative_to(firmware.ROOT).as_posix()}": p for p in ours if p.is_file()}
    assert len(files) > 40
    for name, path in files.items():
        assert held[name] == path.read_bytes()


@pytest.mark.slow
def test_an_installed_package_writes_firmware(wheel, tmp_path):
    """In a home folder with spaces and accents, and without the clone on the path."""
    home = tmp_path / "Jürgen Müller é"
    site = home / "site packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    libraries = sysconfig.get_paths()["purelib"]
    environment = {
        **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        **{"PYTHONPATH": os.pathsep.join((str(site), libraries)), "HOME": str(home)},
    }
    code = (
        "import matloom, sys; from matloom.cli import main\n"
        "print(matloom.__file__, file=sys.stderr)\nsys.argv[0] = 'matloom'\nmain()"
    )
    arguments = ["firmware", str(NETWORK), "--config", "nano", "-o", "my firmware"]
    # -S: whatever the environment adds to the path by itself, such as a clone, stays out.
    command = [sys.executable, "-S", "-c", code, *arguments]
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stderr.splitlines()[0]).is_relative_to(site)
    written = home / "my firmware"
    sources = [*(written / "src").rglob("*.c"), written / "test" / "test_digits.c"]
    include = ["-I", written / "src", "-I", written / "test"]
    command = ["gcc", "-std=c11", *include, *sources, "-o", home / "a test"]
    subprocess.run(list(map(str, command)), check=True)
    assert subprocess.run([home / "a test"], check=True, capture_output=True).stdout == b"passed\n"
