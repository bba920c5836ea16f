from smelt.hub.paper import paper_hub

paper = paper_hub()  # nothing is downloaded
assert (len(paper.models), len(paper.samples), len(paper.targets)) == (49, 5, 17)
assert (len(paper.refs(only="fits")), len(paper.refs(only="readable"))) == (26, 8)
assert paper.model("ViT-B-32.openai").ref == "hf:openai/clip-vit-base-patch32"
assert paper.target("mnist").words().domain == "digit picture"

row = paper.zero_shot[1]["mll"]  # Table 1
assert row.printed == 0.6620
assert round(row.average, 4) == 0.6644
