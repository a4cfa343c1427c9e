"""Runs a guest under sandlock: a program of its own, since sandlock supervises from threads of the process that starts
the guest. It dies with the thread that started it, and the guest with it.
"""

import ctypes
import json
import os
import signal
import sys

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def main() -> int:
    policy = json.loads(sys.argv[1])
    sys.path[:] = [path for path in sys.path if path]
    from sandlock import Sandbox

    library = ctypes.CDLL(None)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(policy["user"], policy["user"], policy["user"])
        os.setresuid(policy["user"], policy["user"], policy["user"])
        library.prctl(_PR_SET_DUMPABLE, 1)  # or it could not supervise under its new name
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != policy["parent"]:
        return 1
    sandbox = Sandbox(
        fs_readable=[path for path in (*policy["programs"], *policy["devices"]) if os.path.exists(path)],
        fs_writable=["/dev/null"],
        max_processes=policy["processes"],
        clean_env=True,
        env=policy["environment"],
        cwd="/",
    )
    return int(sandbox.run_interactive(policy["guest"]))


if __name__ == "__main__":
    sys.exit(main())
