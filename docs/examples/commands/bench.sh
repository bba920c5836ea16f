# a part of the suite: some merges, some tasks, some pictures
smelt bench clip8 -o quick --methods average,ties --tasks photos,digits --limit 50 --no-tune

# the same command again computes nothing; the report can be written again from the rows
smelt report quick
