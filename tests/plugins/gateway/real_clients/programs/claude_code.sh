# Claude Code: claude_code.sh PROMPT [OPTION ...]
export HOME="$PWD" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1
claude -p "$@" --allowedTools Bash </dev/null >answer.txt || exit 1
python3 -c 'import json; print(json.dumps({"answer": open("answer.txt").read().strip()}))'
