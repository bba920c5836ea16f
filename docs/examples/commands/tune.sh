smelt tune data/tuned.yaml -o study --tasks photos,digits --limit 20
