# pi: pi.sh PROMPT [OPTION ...]
export HOME="$PWD" PI_OFFLINE=1 PI_TELEMETRY=0
mkdir -p .pi/agent
cat >.pi/agent/models.json <<END
{"providers": {"agent-r1": {"baseUrl": "$OPENAI_BASE_URL", "apiKey": "OPENAI_API_KEY", "api": "openai-completions",
 "models": [{"id": "policy", "reasoning": true}]}}}
END
pi -p "$@" --provider agent-r1 --model policy --no-session </dev/null >answer.txt || exit 1
python3 -c 'import json; print(json.dumps({"answer": open("answer.txt").read().strip()}))'
