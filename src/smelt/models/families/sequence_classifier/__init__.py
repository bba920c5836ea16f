"""Models with a head over a whole text: classifiers, reward models, cross-encoders."""
