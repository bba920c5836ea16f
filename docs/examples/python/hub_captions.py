from smelt.hub.graph.graph import find_graph
from smelt.hub.matching.captions import TemplateCaptions, find_captioner

offline = TemplateCaptions(find_graph("zoo"))
(caption,) = offline.captions(["truck"], domain="pencil sketch", task="image classification")
assert caption == "The pencil sketch of truck, which is an automotive vehicle suitable for hauling"

# a language model instead; the key is read from the environment when it is asked
written = find_captioner("endpoint:gpt-4o", url="https://api.openai.com/v1", key_env="OPENAI_API_KEY")
assert written.name == "endpoint:gpt-4o"
