# Codex: codex.sh PROMPT [OPTION ...]
export HOME="$PWD" CODEX_HOME="$PWD"
cat >config.toml <<END
model_provider = "agent-r1"
[model_providers.agent-r1]
name = "agent-r1"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[analytics]
enabled = false
END
codex exec "$@" --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
    --output-last-message answer.txt </dev/null || exit 1
python3 -c 'import json; print(json.dumps({"answer": open("answer.txt").read().strip()}))'
