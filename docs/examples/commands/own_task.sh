smelt tasks tasks/shapes
smelt eval zoo:clip-tiny --tasks tasks/shapes
