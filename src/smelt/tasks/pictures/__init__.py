"""Tasks of pictures: classes given by their names, and labelled pictures."""
