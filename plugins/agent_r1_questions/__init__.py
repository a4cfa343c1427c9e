"""Task sources of questions over Wikipedia: `hotpotqa`, `2wikimultihopqa`, `musique`, `bamboogle`, `qa`."""
