"""Runs the plugin's own commands."""

from agent_r1_wiki_search.commands import main

if __name__ == "__main__":
    main()
