smelt bench suites/pair.yaml -o pair --limit 20
