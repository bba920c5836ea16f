import smelt

large = [one.kind for one in smelt.list_cache().kinds if one.bytes > 1e9]
done = smelt.clean_cache(large, older_than="30d", dry_run=True)
assert done.bytes == sum(one.bytes for one in done.removed)
