"""What pages and API show: a selection, the graph around a node, the API's operations; and drawings."""
