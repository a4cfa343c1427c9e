#!/usr/bin/python3 -IS
"""Takes the arguments of docker that the plugin uses; a container is a folder, in which bubblewrap runs commands.

A stand-in: it shows what the plugin asks of docker, not that docker does it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(os.environ["STAND_IN"])


def build(arguments):
    folder, name = Path(arguments[-1]), arguments[arguments.index("--tag") + 1]
    assert (folder / "Dockerfile").read_text() == "FROM scratch\nCOPY files /app\n"
    shutil.copytree(folder / "files", HERE / "images" / name, dirs_exist_ok=True)


def run(arguments):
    *bounds, image, _, _, _, _, _ = arguments
    assert {"--network=none", "--cap-drop=ALL", "--detach", "--rm"} < set(bounds)
    root = HERE / next(bound for bound in bounds if bound.startswith("--name=")).removeprefix("--name=")
    for folder in ("app", "tests", "logs", "tmp"):
        (root / folder).mkdir(parents=True)
    shutil.copytree(HERE / "images" / image, root / "app", dirs_exist_ok=True)
    print("started")


def execute(arguments):
    options = {"--workdir": "/", "--env": []}
    while arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--workdir":
            options[option] = arguments.pop(0)
        elif option == "--env":
            options[option] += ["--setenv", *arguments.pop(0).split("=", 1)]
    root = HERE / arguments.pop(0)
    binds = [part for name in ("app", "tests", "logs", "tmp") for part in ("--bind", str(root / name), f"/{name}")]
    links = [part for name in ("bin", "lib", "lib64") for part in ("--symlink", f"usr/{name}", f"/{name}")]
    command = ["bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--dev", "/dev", "--proc", "/proc"]
    alternatives = ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    place = ["--chdir", options["--workdir"], *options["--env"], "--"]
    sys.exit(subprocess.run([*command, *links, *binds, *alternatives, *place, *arguments], check=False).returncode)


def remove(arguments):
    shutil.rmtree(HERE / arguments[-1])


if __name__ == "__main__":
    {"build": build, "run": run, "exec": execute, "rm": remove}[sys.argv[1]](sys.argv[2:])
