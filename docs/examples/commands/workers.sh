# two processes of this machine merge, each with one thread; the bytes are those of one process
smelt merge first.yaml -o by-workers --executor local --workers 2 --threads 1
