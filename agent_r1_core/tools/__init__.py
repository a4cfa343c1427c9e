"""Running tools: in threads of this process or in processes of their own, within a time-out (LAW 9)."""
