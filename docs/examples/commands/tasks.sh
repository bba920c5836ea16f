smelt tasks
smelt tasks photos
