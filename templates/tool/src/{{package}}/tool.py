"""The tool `{{name}}`: counts a letter in a word."""

from __future__ import annotations

from agent_r1_core import ComponentConfig, Tool, ToolArguments, ToolContext, ToolError


class {{class}}(Tool):
    """Count how often a letter occurs in a word."""

    class Config(ComponentConfig):
        """What a recipe may set."""

        ignore_case: bool = True
        """Count `A` and `a` as one letter."""

    class Arguments(ToolArguments):
        """What the model must say."""

        word: str
        """The word to look at."""
        letter: str
        """The letter to count."""

    def run(self, arguments: Arguments, context: ToolContext) -> str:
        """The count as text; what a ToolError says is shown to the model."""
        word, letter = arguments.word, arguments.letter
        if len(letter) != 1:
            raise ToolError(f"letter is {letter!r}; give a single letter")
        if self.config.ignore_case:
            word, letter = word.lower(), letter.lower()
        return str(word.count(letter))
