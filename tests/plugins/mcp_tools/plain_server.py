"""An MCP server of the handshake's protocol in plain Python, which starts at once: `plain_server.py [TOOL...]`."""

import json
import subprocess
import sys
import time

NAMES = sys.argv[1:] or ["say", "count"]
WORD = {"type": "object", "properties": {"word": {"type": "string"}}}
counted = 0

for line in sys.stdin:
    message = json.loads(line)
    method, given = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    reply: dict = {}
    if method == "initialize":
        about = {"name": "plain", "version": "1"}
        version = given["protocolVersion"]
        reply = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
    elif method == "tools/list":  # one a page
        at = int(given.get("cursor") or 0)
        tool = {"name": NAMES[at], "description": "Says a word, with a count.", "inputSchema": WORD}
        more = {"nextCursor": str(at + 1)} if at + 1 < len(NAMES) else {}
        reply = {"result": {"tools": [tool], **more}}
    elif method == "tools/call":
        counted += given["name"] != "say"
        if given["name"] == "hang":
            time.sleep(600)
        text = f"{given['arguments'].get('word', '')} {counted}"
        if given["name"] == "child":
            text = str(subprocess.Popen(["sleep", "600"]).pid)
        reply = {"result": {"content": [{"type": "text", "text": text}], "isError": False}}
        if given["name"] == "refuse":
            reply = {"error": {"code": -32000, "message": "no luck"}}
    else:
        reply = {"error": {"code": -32601, "message": "there is no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
