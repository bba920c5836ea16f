import smelt

for one in smelt.list_cache().kinds:
    print(one.kind, one.entries, one.bytes, one.last)

done = smelt.clean_cache(["statistics"], older_than="30d", dry_run=True)
print(len(done.removed), "would go,", len(done.kept), "are in use")
