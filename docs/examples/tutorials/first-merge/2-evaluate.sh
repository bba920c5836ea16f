smelt eval zoo:clip-tiny --tasks digits,clothing --limit 100
smelt eval merged --tasks digits,clothing --limit 100
