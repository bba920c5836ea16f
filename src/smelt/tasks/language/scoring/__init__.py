"""How answers to language tasks are scored: functions of an example and an answer, named in the tasks' YAML files."""
