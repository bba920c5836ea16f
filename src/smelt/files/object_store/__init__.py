"""Object stores: places in them, and one small interface to S3, Google's (through its S3 interface) and Azure's.

For others who write objects: `object_place(text)` reads `s3://bucket/some/name`, `open_store(place)` gives the client
of its bucket, and store.py says what a client can do. A multipart upload is known by its key and its id, so that any
process of any machine may bring parts of it: `open_store(place).put_part(key, upload, number, content)`.
"""
