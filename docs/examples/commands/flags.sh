smelt merge -m ties --base base --model cars --model birds --set density=0.2 -o merged
