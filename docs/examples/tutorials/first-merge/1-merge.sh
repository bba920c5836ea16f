smelt plan -m average --base zoo:clip-tiny --model zoo:clip-tiny-digits --model zoo:clip-tiny-clothing
smelt merge -m average --base zoo:clip-tiny --model zoo:clip-tiny-digits --model zoo:clip-tiny-clothing -o merged
smelt verify merged
