"""Builds an index, and kills itself when such a share is done: CORPUS WORK SHARE BACKEND MODEL"""

import os
import signal
import sys
from pathlib import Path

from agent_r1_wiki_search import building, dense_part, passages, tantivy_part
from agent_r1_wiki_search.plans import Plan, parts_of

from agent_r1_core import Work

passages.MOST_PASSAGES, tantivy_part._COMMIT, dense_part._BLOCK = 1000, 2000, 8
corpus, label, moment, backend, model = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), *sys.argv[4:6]


def kill(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)


if label == "publishing":
    building.os.rename = kill

advance = Work.advance


def killing(work, count=1):
    advance(work, count)
    if work.what.startswith(label) and work.done >= moment * work.total:
        kill()


Work.advance = killing
parts = parts_of(Plan(backend, model=model or None))
building.build_index(building.file_source(corpus), parts, corpus.with_name("index"), print)
