"""Which sandbox a machine has, and what is said where it has none."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hostile import BOTH, HELD, HERE, PROJECT, ROOT, attack, start

from runners import cgroup
from runners.cgroup import Group
from runners.confinement import Confinement
from runners.sandbox import SandboxError, available, kind, kinds


def test_the_best_kind_is_taken() -> None:
    """bubblewrap before landlock; a sandbox is available where there is either."""
    assert list(kinds()) == ["bubblewrap", "landlock"]
    assert kind() == (HERE[0] if HERE else "")
    assert (available() is None) == bool(HERE)


@BOTH
def test_a_box_says_of_which_kind_it_is(tmp_path: Path, kind: str) -> None:
    """As asked for."""
    box = start(tmp_path, "pass", replace(HELD, kind=kind))
    assert (box.kind, box.boxed) == (kind, True)
    box.close()


def test_a_box_of_a_kind_that_is_not_to_be_had_is_refused(tmp_path: Path) -> None:
    """Nothing runs then."""
    with pytest.raises(SandboxError):
        start(tmp_path, "print('ran')", replace(HELD, kind="unheard of"))


@ROOT
@BOTH
def test_root_gives_it_a_user_of_its_own(tmp_path: Path, kind: str) -> None:
    """Two boxes are two users, neither is root; a script that only root may read still runs, as root then."""
    source = "import os; print(os.getuid(), os.getgid(), os.getgroups())"
    first, second = (attack(tmp_path, kind, source).text for _ in range(2))
    assert first != second or first.split()[0] not in ("0", str(os.getuid()))
    assert first.split()[0] != "0"
    assert first.endswith("[]\n")
    assert attack(tmp_path, kind, source, replace(HELD, second_user=False)).text.startswith("0 ")


def told(path: str, platform: str) -> str:
    setup = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); sys.platform = {platform!r}"
    code = f"{setup}; from runners.sandbox import available, kinds; print(kinds(), available())"
    return subprocess.run([sys.executable, "-c", code], env={"PATH": path}, capture_output=True, text=True, check=True).stdout


def test_why_there_is_no_sandbox_is_said_with_what_to_do(tmp_path: Path) -> None:
    """A bubblewrap that fails is reported in its own words and with the setting that helps; elsewhere than on Linux, that."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    said = told(str(tmp_path), "linux")
    assert "No permissions to create new namespace" in said
    assert "unprivileged_userns_clone" in said
    assert told("/usr/bin", "darwin").strip().endswith("there is no sandbox on darwin, only on Linux")


def test_a_control_group_is_used_only_where_it_is_marked_as_ours(tmp_path: Path) -> None:
    """A folder that we could write is not enough: it may be somebody else's bookkeeping."""
    (tmp_path / "cgroup.procs").touch()
    assert not cgroup.is_delegated(tmp_path)
    try:
        os.setxattr(tmp_path, "user.delegate", b"1")
    except OSError:
        pytest.skip("this file system keeps no marks")
    assert cgroup.is_delegated(tmp_path)


def test_a_group_of_version_2_gets_its_limits(tmp_path: Path) -> None:
    """On a folder that looks like one: our own processes go one down, the controllers are handed on, then come the limits."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("")
    (tmp_path / "cgroup.procs").write_text("")
    group = Group((tmp_path,), memory=2**30, processes=7)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (tmp_path / cgroup.OURS).is_dir()
    assert [folder.parent for folder in group.folders] == [tmp_path]
    group.close()
    assert not group.folders[0].exists()


def test_groups_of_version_1_are_one_of_each_controller(tmp_path: Path) -> None:
    """Made in every folder that was named, and gone with the box."""
    parents = (tmp_path / "memory", tmp_path / "pids")
    for parent in parents:
        parent.mkdir()
    group = Group(parents, memory=2**30, processes=7)
    assert [folder.parent for folder in group.folders] == list(parents)
    group.close()
    assert not any(folder.exists() for folder in group.folders)


@pytest.mark.skipif(not cgroup.delegated(), reason="no control group was delegated: systemd-run --user --scope -p Delegate=yes")
def test_a_delegated_group_holds_memory_and_processes(tmp_path: Path) -> None:
    """Memory files beyond the limit end the box, without a watch."""
    source = "import os\nfor n in range(12): os.posix_fallocate(os.memfd_create('x'), 0, 2**27)\nprint('got it', flush=True)"
    limits = replace(Confinement().limits, memory=2**29, processes=40)
    assert "got it" not in attack(tmp_path, HERE[0], source, Confinement(limits=limits, watched=False)).text
