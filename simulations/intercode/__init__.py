"""Real logs of two language models on the SQL tasks of InterCode: every policy that logs can evaluate."""
