"""A server that speaks OpenEnv's protocol as far as a client hears it: a number is to be guessed.

The number comes from the seed, unless the server is `forgetful`, as many are.
"""

from __future__ import annotations

import json
import random
import socket
import threading
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

ACTION = {
    "title": "Guess",
    "type": "object",
    "additionalProperties": False,
    "description": "Guess the number.",
    "properties": {"number": {"type": "integer", "description": "From 1 to 9."}, "metadata": {"type": "object"}},
    "required": ["number"],
}
SCHEMA = {"action": ACTION, "observation": {}, "state": {}}


class LittleServer:
    """Serves in a thread."""

    def __init__(self, sessions: int = 64, forgetful: bool = False) -> None:
        self.sessions, self.forgetful = sessions, forgetful
        self.open = self.most_open = self.refused = self.begun = 0
        routes = [
            Route("/schema", lambda request: JSONResponse(SCHEMA)),
            Route("/list_environments", lambda request: JSONResponse(["guessing"])),
            Route("/guessing/tasks", self._tasks, methods=["POST"]),
            WebSocketRoute("/ws", self._serve),
        ]
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        options = {"log_level": "error", "ws": "websockets-sansio", "timeout_graceful_shutdown": 1}
        self._server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), **options))
        self._thread = threading.Thread(target=self._server.run, args=([self._listening],))
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()

    async def _tasks(self, request: Request) -> JSONResponse:
        split = (await request.json())["split"]
        tasks = [{"low": 1 if split == "train" else 5, "index": index} for index in range(4)]
        return JSONResponse({"tasks": tasks, "env_name": "guessing"})

    async def _serve(self, connection: WebSocket) -> None:
        await connection.accept()
        if self.open >= self.sessions:
            self.refused += 1
            full = {"message": "Server at capacity", "code": "CAPACITY_REACHED", "max_sessions": self.sessions}
            await connection.send_json({"type": "error", "data": full})
            return await connection.close()
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self._session(connection)
        except WebSocketDisconnect:
            pass
        finally:
            self.open -= 1
        return None

    async def _session(self, connection: WebSocket) -> None:
        number = left = 0
        while True:
            asked = json.loads(await connection.receive_text())
            data: dict[str, Any] = asked.get("data", {})
            if asked["type"] == "close":
                return
            if asked["type"] == "reset":
                self.begun += 1
                rng = random.Random(self.begun if self.forgetful else data["seed"])
                number, left = rng.randint(data.get("low", 1), 9), 3
                said = {"observation": {"said": f"Guess! It is no {number % 9 + 1}."}, "reward": 0.0, "done": False}
            elif data.get("number") == 0:
                continue
            elif not isinstance(data.get("number"), int) or data.keys() - {"number"}:
                wrong = {"loc": ["number"], "msg": "Input should be a valid integer"}
                refused = {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": [wrong]}
                await connection.send_json({"type": "error", "data": refused})
                continue
            elif data["number"] > 9:
                await connection.send_json({"type": "error", "data": {"message": "boom", "code": "EXECUTION_ERROR"}})
                continue
            else:
                left -= 1
                right = data["number"] == number
                hint = "That is it." if right else "Higher." if data["number"] < number else "Lower."
                said = {"observation": {"said": hint}, "reward": float(right), "done": right or not left}
            await connection.send_json({"type": "observation", "data": said})
