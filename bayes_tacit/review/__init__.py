"""What a reader looks at before trusting a fit: checks, predictions, figures, the report."""
