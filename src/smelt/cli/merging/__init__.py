"""Commands that merge, convert and check models: merge, plan, average, pack, export, verify, methods and so on."""
