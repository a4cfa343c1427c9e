"""Runs all that only a GPU can show, and writes one report (`make test-gpu`).

    python scripts/test_gpu.py
    python scripts/test_gpu.py --parts tests,learner --out results    # the others are kept, and stay in the report
    python scripts/test_gpu.py --pack wheels                          # where there is a network: what may be missing
    python scripts/test_gpu.py --wheels wheels                        # on a machine without one
    python scripts/test_gpu.py --device cpu --tiny                    # shows that the parts run

Parts: tests (those marked `gpu`), recipe (the default one), and those of benchmarks/gpu.py. It takes this Python with
its own torch and transformers, and installs nothing: the checkout is run as it is, and wheels that are missing here are
unpacked beside it. A part that does not end within its minutes is cut, and what it had printed by then is kept. The
exit status is 1 if a part failed or was cut.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from on_gpu.parts import PARTS, Plan, run
from on_gpu.site import PLATFORMS, make_site, pack
from on_gpu.summary import Result, facts, seen_gpu, summary

ROOT = Path(__file__).resolve().parent.parent


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--parts", default=",".join(PARTS), help="parts to run, comma-separated")
    options.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu", help="a folder")
    options.add_argument("--minutes", type=float, default=25.0, help="of all parts together")
    options.add_argument("--part-minutes", type=float, default=9.0, help="of each part")
    options.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    options.add_argument("--tiny", action="store_true", help="the smallest sizes, to see that it runs")
    wheels = os.environ.get("AGENT_R1_WHEELS")
    options.add_argument("--wheels", type=Path, default=wheels, help="folder of missing wheels; or AGENT_R1_WHEELS")
    options.add_argument("--pack", type=Path, metavar="FOLDER", help=f"download them for {PLATFORMS}, and stop")
    chosen = options.parse_args()
    unknown = [part for part in chosen.parts.split(",") if part not in PARTS]
    if unknown:
        options.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    if chosen.wheels is not None and not chosen.wheels.is_dir():
        options.error(f"there is no folder {chosen.wheels}; fill one with --pack, or leave --wheels out")
    return chosen


def main() -> int:
    """Run the parts one after the other; the report is written again after each."""
    options = arguments()
    if options.pack is not None:
        print(pack(options.pack, ROOT))
        return 0
    if options.device == "cuda" and not seen_gpu():
        print(
            "torch sees no CUDA device, so that nothing was run; use a machine with a GPU, "
            "or see with --device cpu --tiny that the parts run",
            file=sys.stderr,
        )
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="test-gpu-") as home:
        environment = make_site(Path(home) / "site", ROOT, options.wheels)
        described = facts(environment)
        plan = Plan(ROOT, Path(home), options.device, options.tiny, environment)
        chosen = options.parts.split(",")
        for name in [part for part in PARTS if part in chosen]:
            seconds = min(60 * options.part_minutes, end - time.monotonic())
            result = run(name, plan, seconds)
            result.save(options.out)
            print(f"{name}: {result.outcome}, {result.seconds:.0f} s", flush=True)
            kept = Result.load_all(options.out, list(PARTS))
            (options.out / "report.md").write_text(summary(described, kept), encoding="utf-8")
    print(f"written to {options.out / 'report.md'}")
    return int(any(result.outcome != "passed" for result in kept if result.part in chosen))


if __name__ == "__main__":
    sys.exit(main())
