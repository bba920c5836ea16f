from smelt.hub.paper import paper_hub

paper = paper_hub()  # nothing is downloaded
assert (len(paper.models), len(paper.samples), len(paper.targets)) == (49, 5, 17)
assert paper.model("ViT-B-32.openai").ref == "open_clip:ViT-B-32/openai"
assert paper.target("mnist").words().domain == "digit picture"
assert paper.target("mnist").as_task().templates == ("a photo of {}",)
assert paper.alpha[0.7] == 0.6620  # Table 3
