# a hub with two models, each tested once on the zoo's graph
smelt hub init --hub my-hub --node-text name
smelt hub add zoo:clip-tiny-rn-digits --hub my-hub
smelt hub add zoo:clip-tiny-rn-photos --hub my-hub
smelt hub ls --hub my-hub

# which of them for which class, and why
smelt hub select --classes "three,eight,horse,truck" --explain --hub my-hub

# choose for another task, and ask about pictures
smelt hub predict tasks/shapes/pictures/test/circle/0.png tasks/shapes/pictures/test/square/0.png \
  --classes "circle,square" --domain drawing --hub my-hub

# what a model is good and bad at
smelt hub show clip-tiny-rn-photos --limit 5 --hub my-hub
