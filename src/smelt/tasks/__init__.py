"""Tasks: what a model is asked, with the data for it. Four kinds: pictures, language, questions, harness tasks."""
