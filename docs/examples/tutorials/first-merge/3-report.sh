smelt bench two-experts.yaml -o two-experts --limit 100
