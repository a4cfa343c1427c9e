"""A calculator as an MCP server over standard input and output, for the package mcp 1.30 or 2."""

from agent_r1_calculator.evaluator import evaluate

try:
    from mcp.server import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("sums")


@server.tool()
def calculator(expression: str) -> str:
    """Evaluates an arithmetic expression and returns the result."""
    return str(evaluate(expression))


if __name__ == "__main__":
    server.run("stdio")
